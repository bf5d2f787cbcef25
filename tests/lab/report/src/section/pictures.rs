//! Screenshots of loaded pages compared with those of direct loads.
use maud::{Markup, html};

use super::Context;
use crate::{
    markup::{Cell, Column, Table, Tone, shorten},
    pictures::{Compared, compared},
    quantity,
};

fn legend() -> Markup {
    html! {
        p class="legend-text" {
            "Share of the viewport's pixels of which a channel differs by more than 16 of 255. direct, direct: maximum \
             difference between two direct loads of the page. this, direct: difference of the load that differs most, as the \
             median over the direct loads. A page that differs by itself is not the system's fault: " b { "no worse" }
            " means at most that difference plus a thousandth of the pixels."
        }
    }
}

pub(super) fn render(context: &Context<'_>) -> Markup {
    let pictures = compared(context.measurements);
    if pictures.is_empty() {
        return html! {};
    }
    let mut table = Table::new(
        "pictures of loaded pages",
        &[
            ("condition", Column::Words),
            ("page", Column::Words),
            ("system", Column::Words),
            ("pictures", Column::Numbers),
            ("direct, direct", Column::Numbers),
            ("this, direct", Column::Numbers),
            ("mean difference", Column::Numbers),
            ("verdict", Column::Words),
        ],
    );
    for picture in pictures {
        let Compared {
            setting,
            page,
            system,
            count,
            ..
        } = &picture;
        let tone = if picture.no_worse == Some(false) {
            Tone::Failed
        } else {
            Tone::Plain
        };
        table.row(
            tone,
            &[
                Cell::Head(setting.clone()),
                Cell::Head(shorten(page, 60)),
                Cell::Head(system.clone()),
                Cell::Number(count.to_string()),
                Cell::Number(quantity::percent_or_none(picture.noise)),
                Cell::Number(quantity::percent_or_none(picture.differs)),
                Cell::Number(quantity::percent_or_none(picture.mean)),
                Cell::Head(picture.verdict().to_owned()),
            ],
        );
    }
    html! { (legend()) (table.finish()) }
}
