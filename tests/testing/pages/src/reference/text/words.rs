//! Vocabulary of the pages, and short texts from it.
use std::sync::LazyLock;

use crate::reference::random::Random;

/// Words of one kind, the most frequent first.
pub(super) struct Words(LazyLock<Vec<&'static str>>);

impl Words {
    pub(super) fn pick(&self, random: &mut Random) -> &'static str {
        random.pick_early(&self.0)
    }

    pub(super) fn even(&self, random: &mut Random) -> &'static str {
        random.pick(&self.0)
    }
}

macro_rules! words {
    ($name:ident, $list:literal) => {
        pub(super) static $name: Words = Words(LazyLock::new(|| $list.split_ascii_whitespace().collect()));
    };
}

words!(
    NOUNS,
    "people government year company report city market team week officials state country president plan
    group service police school war court price law music film game weather system power hospital family money
    office business train station bridge water storm travel flight airport ticket computer software network phone
    screen camera picture book author player coach season match stadium goal record victory candidate election vote
    minister parliament treaty border army general soldier peace budget tax trade bank share investor profit loss
    industry factory worker union strike farmer harvest forest river mountain island coast harbour ship engine fuel
    oil gas energy planet rocket mission astronaut telescope scientist study research university student teacher
    course degree doctor patient disease treatment medicine drug heart brain cancer virus health food kitchen recipe
    restaurant hotel beach holiday festival concert band singer album song stage theatre actor director scene award
    museum painting artist design fashion garden house apartment street neighbour village church tower castle history
    century museum evidence witness judge jury trial prison suspect crime murder fire rescue earthquake flood damage
    insurance pension customer shop store brand product quality offer discount delivery order auction bidder collector
    message password account address keyboard printer memory chip laptop modem browser server database virus virtue
    opinion letter editor column interview question answer problem solution decision agreement dispute protest march
    speech audience crowd neighbour memory childhood marriage daughter brother friend winner champion trophy medal
    league injury contract transfer manager referee penalty tournament final replay highlight schedule ranking"
);
words!(
    VERBS,
    "said reported announced expected opened closed won lost made found called asked told showed
    reached offered warned denied confirmed rejected accepted launched planned returned ordered bought sold raised cut
    signed visited joined left started ended beat faced feared welcomed promised agreed refused delayed cancelled
    suspended approved published released discovered tested repaired built destroyed rescued arrested charged accused
    sentenced elected appointed replaced praised criticised questioned defended attacked blocked crossed entered
    followed carried dropped gained missed scored saved broke halted resumed widened doubled measured recorded painted
    designed taught trained treated cured harvested shipped delivered insured taxed merged split"
);
words!(
    ADJECTIVES,
    "new first last other local national early late public high low good large small long short
    young old major minor political economic financial military social foreign domestic recent former current central
    northern southern eastern western popular famous rare common heavy light fast slow strong weak safe dangerous
    difficult easy cheap expensive free modern ancient open secret quiet loud bright dark cold warm dry wet serious
    severe annual daily weekly regional global unusual surprising disappointing remarkable controversial independent
    official private digital mobile electronic scientific medical historic cultural industrial agricultural legal
    temporary permanent urgent reliable fragile generous ambitious cautious narrow steep remote crowded deserted"
);
words!(
    ADVERBS,
    "yesterday again later today soon early quickly slowly finally nearly already apparently officially
    reportedly privately suddenly carefully narrowly sharply steadily rarely twice abroad overnight elsewhere"
);
words!(
    PLACES,
    "London Washington Berlin Paris Munich Hamburg Vienna Rome Madrid Lisbon Dublin Oslo Stockholm
    Helsinki Warsaw Prague Budapest Athens Cairo Nairobi Lagos Delhi Mumbai Tokyo Osaka Seoul Beijing Shanghai Sydney
    Melbourne Auckland Toronto Montreal Vancouver Boston Chicago Denver Houston Dallas Atlanta Miami Seattle Portland
    Phoenix Detroit Geneva Zurich Innsbruck Salzburg Bristol Leeds Cambridge Oxford Glasgow Cardiff Bremen Dresden"
);
words!(
    FIRST,
    "John Mary David Sarah Michael Anna Peter Laura James Julia Robert Susan Thomas Helen Martin Claire
    Daniel Emma Paul Karen Andrew Maria Stephen Nina George Eva Richard Lucy Simon Petra Frank Alice Oliver Ruth"
);
words!(
    ENDINGS,
    "son man berg field ford ton ley well wood stein hauser mann ski ova ez elli ard ett worth by sen quist"
);
words!(
    SYLLABLES,
    "an ber co da el fro gar hal in jo kel lo mar nor os pel quin ros sta tor ul ver wil xan yor zim bra cla dun"
);
words!(
    SECTIONS,
    "news world business sport travel weather technology entertainment health science politics money
    shopping games music movies cars jobs homes family education opinion style food"
);
words!(
    LINKS,
    "of in to for on with at by from after before over under against about between during without"
);
words!(
    CLASSES,
    "box teaser headline summary story caption menu item list panel title date more side main foot
    head bar label note price quote table row cell odd even first last hot small wide"
);

/// Capitalises a word.
pub(crate) fn capital(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// Returns a person's name; family names are generated, so there are many.
pub(super) fn person(random: &mut Random) -> String {
    let first = FIRST.pick(random);
    format!("{first} {}", surname(random))
}

pub(super) fn surname(random: &mut Random) -> String {
    let mut name = String::from(SYLLABLES.even(random));
    if random.chance(0.4) {
        name.push_str(SYLLABLES.even(random));
    }
    name.push_str(ENDINGS.even(random));
    capital(&name)
}

/// Returns the lettering of a button: one or two words in capitals.
pub(crate) fn label(random: &mut Random) -> String {
    let mut words = SECTIONS.even(random).to_ascii_uppercase();
    if random.chance(0.4) {
        words.push(' ');
        words.push_str(&NOUNS.even(random).to_ascii_uppercase());
    }
    words
}

/// Returns a headline of about six words.
pub(super) fn headline(random: &mut Random) -> String {
    let (adjective, noun, verb, object) = (
        ADJECTIVES.pick(random),
        NOUNS.pick(random),
        VERBS.pick(random),
        NOUNS.pick(random),
    );
    match random.below(4) {
        0 => format!(
            "{} {noun} {verb} {} {object}",
            capital(adjective),
            ADJECTIVES.pick(random)
        ),
        1 => format!(
            "{} {noun} {verb} {object} in {}",
            capital(adjective),
            PLACES.pick(random)
        ),
        2 => format!(
            "{} {verb} {object} {} {noun}",
            surname(random),
            LINKS.pick(random)
        ),
        _ => format!(
            "{}: {noun} {} {adjective} {object}",
            PLACES.pick(random),
            LINKS.pick(random)
        ),
    }
}

/// Returns a sentence of 8 to 25 words.
pub(super) fn sentence(random: &mut Random) -> String {
    let noun = |random: &mut Random| {
        let noun = NOUNS.pick(random);
        match random.below(3) {
            0 => format!("the {} {noun}", ADJECTIVES.pick(random)),
            1 => format!("the {noun}"),
            _ => format!("a {noun} {} {}", LINKS.pick(random), PLACES.pick(random)),
        }
    };
    let subject = if random.chance(0.3) {
        person(random)
    } else {
        noun(random)
    };
    let (verb, object) = (VERBS.pick(random), noun(random));
    let tail = match random.below(6) {
        0 => format!(", {} told reporters {}", surname(random), ADVERBS.pick(random)),
        1 => format!(" {} {}", LINKS.pick(random), noun(random)),
        2 => format!(", while {} {} {}", noun(random), VERBS.pick(random), noun(random)),
        3 => format!(
            ", up {}.{} percent from {}",
            random.below(40),
            random.below(10),
            random.range(1990, 2003)
        ),
        4 => format!(" and {} {}", VERBS.pick(random), noun(random)),
        _ => format!(" {}", ADVERBS.pick(random)),
    };
    format!("{} {verb} {object}{tail}. ", capital(&subject))
}

/// Returns sentences of at least `length` bytes in total.
pub(super) fn prose(random: &mut Random, length: usize) -> String {
    let mut prose = String::new();
    while prose.len() < length {
        prose.push_str(&sentence(random));
    }
    prose.truncate(prose.trim_end().len());
    prose
}

/// Returns a hexadecimal number, as content management systems use in links.
pub(super) fn token(random: &mut Random, digits: usize) -> String {
    let hex = format!("{:016x}", random.next());
    hex.chars().take(digits).collect()
}

/// Returns a key of letters and digits, as in identifiers of sessions and records.
pub(super) fn key(random: &mut Random, length: usize) -> String {
    const DIGITS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    (0..length).map(|_| char::from(random.pick(DIGITS))).collect()
}
