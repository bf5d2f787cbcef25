//! The default code table of RFC 3284 section 5.6.

/// An instruction of the table; a size of 0 means that the size follows the opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Instruction {
    Noop,
    Add { size: u8 },
    Run,
    Copy { size: u8, mode: u8 },
}

/// The largest ADD whose size is in the opcode.
pub(super) const MAX_ADD: u32 = 17;
/// The smallest and the largest COPY whose size is in the opcode.
pub(super) const MIN_COPY: u32 = 4;
pub(super) const MAX_COPY: u32 = 18;
/// The opcode of a RUN.
pub(super) const RUN: u8 = 0;
const FIRST_ADD: u8 = 1;
const FIRST_COPY: u8 = 19;
const FIRST_ADD_COPY: u8 = 163;
const FIRST_ADD_COPY_SAME: u8 = 235;
const FIRST_COPY_ADD: u8 = 247;

/// The instructions of each opcode.
pub(super) const DEFAULT: [(Instruction, Instruction); 256] = build();

const fn build() -> [(Instruction, Instruction); 256] {
    use Instruction::{Add, Copy, Noop, Run};
    let mut table = [(Noop, Noop); 256];
    table[RUN as usize] = (Run, Noop);
    let mut at = FIRST_ADD as usize;
    let mut size = 0;
    while size <= 17 {
        table[at] = (Add { size }, Noop);
        at += 1;
        size += 1;
    }
    let mut mode = 0;
    while mode < 9 {
        table[at] = (Copy { size: 0, mode }, Noop);
        at += 1;
        let mut size = 4;
        while size <= 18 {
            table[at] = (Copy { size, mode }, Noop);
            at += 1;
            size += 1;
        }
        mode += 1;
    }
    let mut mode = 0;
    while mode < 9 {
        let largest = if mode < 6 { 6 } else { 4 };
        let mut add = 1;
        while add <= 4 {
            let mut size = 4;
            while size <= largest {
                table[at] = (Add { size: add }, Copy { size, mode });
                at += 1;
                size += 1;
            }
            add += 1;
        }
        mode += 1;
    }
    let mut mode = 0;
    while mode < 9 {
        table[at] = (Copy { size: 4, mode }, Add { size: 1 });
        at += 1;
        mode += 1;
    }
    assert!(at == 256, "the table has 256 entries");
    table
}

fn byte(value: u32) -> u8 {
    value.to_le_bytes()[0]
}

/// The opcode of an ADD; true if its size follows.
pub(super) fn add(size: u32) -> (u8, bool) {
    if (1..=MAX_ADD).contains(&size) {
        (FIRST_ADD + byte(size), false)
    } else {
        (FIRST_ADD, true)
    }
}

/// The opcode of a COPY; true if its size follows.
pub(super) fn copy(size: u32, mode: u8) -> (u8, bool) {
    let first = FIRST_COPY + 16 * mode;
    if (MIN_COPY..=MAX_COPY).contains(&size) {
        (first + byte(size - 3), false)
    } else {
        (first, true)
    }
}

/// The opcode of an ADD and the COPY after it, if the table has one.
pub(super) fn add_copy(add: u32, size: u32, mode: u8) -> Option<u8> {
    if !(1..=4).contains(&add) || !(4..=max_paired_copy(mode)).contains(&size) {
        return None;
    }
    Some(if mode < 6 {
        FIRST_ADD_COPY + 12 * mode + 3 * byte(add - 1) + byte(size - 4)
    } else {
        FIRST_ADD_COPY_SAME + 4 * (mode - 6) + byte(add - 1)
    })
}

/// The largest COPY of this mode that shares an opcode with the ADD of 1 to 4 bytes before it.
pub(super) const fn max_paired_copy(mode: u8) -> u32 {
    if mode < 6 { 6 } else { 4 }
}

/// The opcode of a COPY and the ADD after it, if the table has one.
pub(super) fn copy_add(size: u32, mode: u8, add: u32) -> Option<u8> {
    (size == 4 && add == 1).then(|| FIRST_COPY_ADD + mode)
}

#[cfg(test)]
mod tests {
    use super::{
        Instruction::{Add, Copy, Noop, Run},
        *,
    };

    /// Entries of the table in RFC 3284 section 5.6.
    #[test]
    fn table_entries_match_rfc_3284() {
        assert_eq!(DEFAULT[0], (Run, Noop));
        assert_eq!(DEFAULT[1], (Add { size: 0 }, Noop));
        assert_eq!(DEFAULT[18], (Add { size: 17 }, Noop));
        assert_eq!(DEFAULT[19], (Copy { size: 0, mode: 0 }, Noop));
        assert_eq!(DEFAULT[34], (Copy { size: 18, mode: 0 }, Noop));
        assert_eq!(DEFAULT[35], (Copy { size: 0, mode: 1 }, Noop));
        assert_eq!(DEFAULT[162], (Copy { size: 18, mode: 8 }, Noop));
        assert_eq!(DEFAULT[163], (Add { size: 1 }, Copy { size: 4, mode: 0 }));
        assert_eq!(DEFAULT[175], (Add { size: 1 }, Copy { size: 4, mode: 1 }));
        assert_eq!(DEFAULT[234], (Add { size: 4 }, Copy { size: 6, mode: 5 }));
        assert_eq!(DEFAULT[235], (Add { size: 1 }, Copy { size: 4, mode: 6 }));
        assert_eq!(DEFAULT[246], (Add { size: 4 }, Copy { size: 4, mode: 8 }));
        assert_eq!(DEFAULT[247], (Copy { size: 4, mode: 0 }, Add { size: 1 }));
        assert_eq!(DEFAULT[255], (Copy { size: 4, mode: 8 }, Add { size: 1 }));
    }

    #[test]
    fn opcodes_lead_to_their_entry() {
        for size in 0..40 {
            let (opcode, explicit) = add(size);
            let written = if explicit { 0 } else { byte(size) };
            assert_eq!(DEFAULT[usize::from(opcode)], (Add { size: written }, Noop));
            for mode in 0..9 {
                let (opcode, explicit) = copy(size, mode);
                let written = if explicit { 0 } else { byte(size) };
                assert_eq!(DEFAULT[usize::from(opcode)], (Copy { size: written, mode }, Noop));
                for length in 0..9 {
                    let (add, copy) = (
                        Add { size: byte(length) },
                        Copy {
                            size: byte(size),
                            mode,
                        },
                    );
                    if let Some(opcode) = add_copy(length, size, mode) {
                        assert_eq!(DEFAULT[usize::from(opcode)], (add, copy));
                    }
                    if let Some(opcode) = copy_add(size, mode, length) {
                        assert_eq!(DEFAULT[usize::from(opcode)], (copy, add));
                    }
                }
            }
        }
    }
}
