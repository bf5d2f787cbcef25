//! Instructions and the encoding of a window (RFC 3284 sections 4.2, 4.3 and 5).
use super::{Checksum, matches::Texts};
use crate::vcdiff::{
    adler::adler32,
    cache::AddressCache,
    header::{CHECKSUM_SIZE, WINDOW_CHECKSUM, WINDOW_SOURCE},
    integer, table,
};

/// An instruction that produces the next bytes of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Instruction {
    /// This many new bytes.
    Add(u32),
    /// One byte, this many times.
    Run(u32),
    /// Bytes from an address in segment and target.
    Copy { address: u32, size: u32 },
}

impl Instruction {
    /// Number of target bytes that the instruction produces.
    pub(super) fn size(self) -> u32 {
        match self {
            Self::Add(size) | Self::Run(size) | Self::Copy { size, .. } => size,
        }
    }
}

/// The instructions of a window, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Instructions(Vec<Instruction>);

/// The range of the source segment that copies use: its start and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Used {
    start: u32,
    end: u32,
}

/// The three sections under construction.
#[derive(Default)]
struct Sections {
    data: Vec<u8>,
    instructions: Vec<u8>,
    addresses: Vec<u8>,
    /// The previous instruction, if it is alone in its opcode and the opcode is the last byte of its section:
    /// no size may follow.
    open: Option<Open>,
}

#[derive(Clone, Copy)]
enum Open {
    Add(u32),
    Copy { size: u32, mode: u8 },
}

impl Instructions {
    pub(super) fn push(&mut self, instruction: Instruction) {
        use Instruction::Add;
        match (self.0.last_mut(), instruction) {
            (_, Add(0)) => {}
            (Some(Add(before)), Add(size)) => *before += size,
            _ => self.0.push(instruction),
        }
    }

    /// The part of the segment that the copies use. Omitting the rest makes addresses smaller.
    fn used(&self, texts: Texts<'_>) -> Option<Used> {
        let mut used: Option<Used> = None;
        for instruction in &self.0 {
            if let Instruction::Copy { address, size } = *instruction
                && address < texts.border()
            {
                let so_far = used.unwrap_or(Used {
                    start: address,
                    end: 0,
                });
                used = Some(Used {
                    start: so_far.start.min(address),
                    end: so_far.end.max(address + size),
                });
            }
        }
        used
    }

    /// Appends the window of these instructions. `start` is the start of the segment in the source.
    pub(super) fn put(&self, start: usize, texts: Texts<'_>, checksum: Checksum, out: &mut Vec<u8>) {
        let used = self.used(texts);
        let Used { start: first, end } = used.unwrap_or(Used { start: 0, end: 0 });
        let sections = self.sections(texts, first, end);
        let (mut indicator, mut coded) = (0, Vec::new());
        integer::put(texts.target_length(), &mut coded);
        // No section is compressed further.
        coded.push(0);
        for section in [&sections.data, &sections.instructions, &sections.addresses] {
            integer::put(length(section), &mut coded);
        }
        if checksum == Checksum::Adler32 {
            indicator |= WINDOW_CHECKSUM;
            let sum: [u8; CHECKSUM_SIZE] = adler32(texts.target).to_be_bytes();
            coded.extend_from_slice(&sum);
        }
        let mut segment = Vec::new();
        if used.is_some() {
            indicator |= WINDOW_SOURCE;
            integer::put(end - first, &mut segment);
            integer::put(start as u64 + u64::from(first), &mut segment);
        }
        out.push(indicator);
        out.extend_from_slice(&segment);
        let body = sections.data.len() + sections.instructions.len() + sections.addresses.len();
        integer::put((coded.len() + body) as u64, out);
        out.extend_from_slice(&coded);
        out.extend_from_slice(&sections.data);
        out.extend_from_slice(&sections.instructions);
        out.extend_from_slice(&sections.addresses);
    }

    /// Encodes the sections for the part of the segment from `first` to `end`.
    fn sections(&self, texts: Texts<'_>, first: u32, end: u32) -> Sections {
        let mut sections = Sections::default();
        let mut cache = AddressCache::new();
        let mut at = 0;
        for instruction in &self.0 {
            match *instruction {
                Instruction::Add(size) => {
                    sections.add(&texts.target[at..][..size as usize]);
                    at += size as usize;
                }
                Instruction::Run(size) => {
                    sections.run(texts.target[at], size);
                    at += size as usize;
                }
                Instruction::Copy { address, size } => {
                    // Addresses after the used part of the segment are relative to its end.
                    let address = if address < texts.border() {
                        address - first
                    } else {
                        address - texts.border() + (end - first)
                    };
                    let here = end - first + texts.position(at);
                    sections.copy(address, size, here, &mut cache);
                    at += size as usize;
                }
            }
        }
        sections
    }
}

fn length(section: &[u8]) -> u32 {
    u32::try_from(section.len()).unwrap_or(u32::MAX)
}

impl Sections {
    fn add(&mut self, bytes: &[u8]) {
        self.data.extend_from_slice(bytes);
        let size = length(bytes);
        if let Some(Open::Copy { size: copied, mode }) = self.open
            && let Some(opcode) = table::copy_add(copied, mode, size)
        {
            self.replace(opcode);
            return;
        }
        let (opcode, explicit) = table::add(size);
        self.single(opcode, explicit, size, Open::Add(size));
    }

    fn run(&mut self, byte: u8, size: u32) {
        self.data.push(byte);
        self.instructions.push(table::RUN);
        integer::put(size, &mut self.instructions);
        self.open = None;
    }

    fn copy(&mut self, address: u32, size: u32, here: u32, cache: &mut AddressCache) {
        let coded = cache.code(address, here);
        cache.remember(address);
        coded.put(&mut self.addresses);
        if let Some(Open::Add(added)) = self.open
            && let Some(opcode) = table::add_copy(added, size, coded.mode)
        {
            self.replace(opcode);
            return;
        }
        let (opcode, explicit) = table::copy(size, coded.mode);
        let mode = coded.mode;
        self.single(opcode, explicit, size, Open::Copy { size, mode });
    }

    /// Writes an instruction with an opcode of its own, which the next instruction may share.
    fn single(&mut self, opcode: u8, explicit: bool, size: u32, open: Open) {
        self.instructions.push(opcode);
        self.open = Some(open).filter(|_| !explicit);
        if explicit {
            integer::put(size, &mut self.instructions);
        }
    }

    /// Replaces the last opcode by one that includes the next instruction.
    fn replace(&mut self, opcode: u8) {
        self.instructions.pop();
        self.instructions.push(opcode);
        self.open = None;
    }
}
