//! Backgrounds of `style` attributes, which style sheets may override.
use super::*;

const IMAGE: &str = "http://a.test/1.png";

fn background(text: &str) -> Reference {
    Reference {
        is_inline_background: true,
        ..reference(text, Destination::Image)
    }
}

/// A plan with a style sheet, a background and an image, of which the latter two wait for their pushes.
fn waiting() -> Plan {
    let mut plan = plan_of(&[("http://a.test/x.css", Destination::Style)]);
    let image = reference("http://a.test/2.png", Destination::Image);
    plan.found([background(IMAGE), image], None);
    fetch_all(&mut plan);
    for number in 1..3 {
        plan.answered(id(number), answer(known(&[1])), nothing_held);
    }
    plan
}

fn answer_sheet(plan: &mut Plan) {
    plan.answered(id(0), answer(known(b"x")), nothing_held);
    plan.entry_searched(id(0));
}

#[test]
fn backgrounds_are_pushed_once_the_style_sheets_are_searched() {
    let mut plan = plan_of(&[("http://a.test/x.css", Destination::Style)]);
    plan.found(
        [
            background(IMAGE),
            reference("http://a.test/2.png", Destination::Image),
        ],
        None,
    );
    assert_eq!(fetch_all(&mut plan), [0, 1, 2].map(id), "fetched at once");
    for number in 1..3_u8 {
        plan.answered(id(number.into()), answer(known(&[number])), nothing_held);
    }
    assert_eq!(next_push(&mut plan), Some(id(2)));
    assert_eq!(next_push(&mut plan), None);
    answer_sheet(&mut plan);
    assert_eq!(next_push(&mut plan), Some(id(0)));
    assert_eq!(next_push(&mut plan), Some(id(1)));
    plan.override_background(&url(IMAGE));
    assert!(
        plan.get(id(1)).unwrap().answered().is_some(),
        "its push has begun"
    );
}

#[test]
fn overridden_backgrounds_are_withdrawn_and_may_be_planned_again() {
    let mut plan = plan_of(&[("http://a.test/x.css", Destination::Style)]);
    plan.found([background(IMAGE)], None);
    fetch_all(&mut plan);
    plan.answered(id(1), answer(known(b"1")), nothing_held);
    plan.take_records();
    plan.override_background(&url(IMAGE));
    let (entry, reason) = (id(1), Withdrawal::Cancelled);
    assert_eq!(plan.take_records(), [Record::Withdrawn { entry, reason }]);
    answer_sheet(&mut plan);
    assert_eq!((next_push(&mut plan), next_push(&mut plan)), (Some(id(0)), None));
    assert_eq!(plan.find(IMAGE), None, "requests for it are learned");
    plan.found([reference(IMAGE, Destination::Image)], None);
    assert_eq!(plan.find(IMAGE), Some(id(2)));
}

#[test]
fn backgrounds_that_are_needed_stay() {
    // The browser requests one.
    let mut plan = waiting();
    plan.requested(&[id(1)]);
    plan.override_background(&url(IMAGE));
    assert_eq!(
        next_push(&mut plan),
        Some(id(1)),
        "it does not wait for the style sheet"
    );
    // An element displays it.
    let mut plan = waiting();
    plan.found([reference(IMAGE, Destination::Image)], None);
    plan.override_background(&url(IMAGE));
    assert_eq!(next_push(&mut plan), Some(id(1)));
    // The next image has the same body, for which its head refers to this one.
    let mut plan = waiting();
    plan.override_background(&url(IMAGE));
    answer_sheet(&mut plan);
    assert_eq!(
        (next_push(&mut plan), next_push(&mut plan)),
        (Some(id(0)), Some(id(1)))
    );
}
