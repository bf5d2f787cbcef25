//! Decoder for RFC 3284 with the default code table, which includes the output of `xdelta3 -S none`.
use super::{
    adler::adler32,
    cache::{AddressCache, AddressFault},
    header::{self, Lengths, MAX_FILE_HEADER, MAX_WINDOW_HEADER, Origin, Parsed, WindowHeader},
    integer,
    limits::{DecodeError, Limits, Section},
    table::{DEFAULT, Instruction},
};

/// Initial allocation for a window's output.
const FIRST_ROOM: usize = 64 * 1024;
/// Addresses have 32 bits: the sum of source segment and window stays below.
const MAX_SOURCE: u64 = 1 << 31;

/// Decodes a complete delta against `source`.
///
/// # Errors
/// The delta is damaged, was made with another source, uses an unsupported feature, or exceeds `limits`.
pub fn decode(source: &[u8], delta: &[u8], limits: Limits) -> Result<Vec<u8>, DecodeError> {
    let mut decoder = Decoder::new(source, limits)?;
    let mut input = delta;
    let mut target = Vec::new();
    while let Event::Window(window) = decoder.next(&mut input)? {
        if target.is_empty() {
            target = window;
        } else {
            target.extend_from_slice(&window);
        }
    }
    decoder.finish()?;
    Ok(target)
}

/// Result of [`Decoder::next`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The next bytes of the target; they match their checksum if the delta has one.
    Window(Vec<u8>),
    /// The input is consumed. If it was the last input, [`Decoder::finish`] checks that the target is
    /// complete.
    NeedInput,
}

/// Incremental decoder of a delta. It buffers one coded window and the start of the target, and returns one
/// decoded window at a time.
#[derive(Debug)]
pub struct Decoder<S> {
    source: S,
    limits: Limits,
    state: State,
    /// Bytes of the delta that are not consumed yet.
    held: Vec<u8>,
    /// The first bytes of the target, for windows that copy from the target.
    history: Vec<u8>,
    windows: u64,
    target: u64,
    instructions: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    FileHeader,
    /// In the application header; contains the number of its remaining bytes.
    Text(u64),
    WindowHeader,
    Body(WindowHeader),
    Failed(DecodeError),
}

impl<S: AsRef<[u8]>> Decoder<S> {
    /// Returns a decoder of a delta against `source`.
    ///
    /// # Errors
    /// The source exceeds the limit.
    pub fn new(source: S, limits: Limits) -> Result<Self, DecodeError> {
        let length = source.as_ref().len() as u64;
        if length > limits.max_source.bytes() || length > MAX_SOURCE {
            return Err(DecodeError::SourceTooLarge(limits.max_source));
        }
        Ok(Self {
            source,
            limits,
            state: State::FileHeader,
            held: Vec::new(),
            history: Vec::new(),
            windows: 0,
            target: 0,
            instructions: 0,
        })
    }

    /// Takes the bytes of the next window from `input` and decodes the window.
    ///
    /// # Errors
    /// As of [`decode`]; later calls return the same error.
    pub fn next(&mut self, input: &mut &[u8]) -> Result<Event, DecodeError> {
        if let State::Failed(error) = self.state {
            return Err(error);
        }
        self.advance(input)
            .inspect_err(|error| self.state = State::Failed(*error))
    }

    /// Ends the input.
    ///
    /// # Errors
    /// The delta is incomplete, or an earlier call failed.
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.state {
            State::Failed(error) => Err(error),
            State::WindowHeader if self.held.is_empty() => Ok(()),
            State::FileHeader | State::Text(_) | State::WindowHeader | State::Body(_) => {
                Err(DecodeError::Truncated { offset: self.target })
            }
        }
    }

    fn advance(&mut self, input: &mut &[u8]) -> Result<Event, DecodeError> {
        loop {
            match self.state {
                State::FileHeader => {
                    self.fill(MAX_FILE_HEADER, input);
                    match header::file_header(&self.held)? {
                        Parsed::Complete(text, size) => {
                            self.held.drain(..size);
                            self.state = State::Text(text);
                        }
                        Parsed::Incomplete => return Ok(Event::NeedInput),
                    }
                }
                State::Text(left) => {
                    let left = self.skip(left, input);
                    if left > 0 {
                        self.state = State::Text(left);
                        return Ok(Event::NeedInput);
                    }
                    self.state = State::WindowHeader;
                }
                State::WindowHeader => {
                    self.fill(MAX_WINDOW_HEADER, input);
                    if self.held.is_empty() {
                        return Ok(Event::NeedInput);
                    }
                    self.count_window()?;
                    let lengths = Lengths {
                        source: self.source.as_ref().len() as u64,
                        target: self.target,
                    };
                    match header::window_header(&self.held, lengths, &self.limits)? {
                        Parsed::Complete(header, size) => {
                            self.check_length(header)?;
                            self.held.drain(..size);
                            self.state = State::Body(header);
                        }
                        Parsed::Incomplete => return Ok(Event::NeedInput),
                    }
                }
                State::Body(header) => {
                    self.fill(header.body(), input);
                    if self.held.len() < header.body() {
                        return Ok(Event::NeedInput);
                    }
                    let window = self.window(&header)?;
                    self.held.drain(..header.body());
                    self.windows += 1;
                    self.target += window.len() as u64;
                    self.remember(&window);
                    self.state = State::WindowHeader;
                    return Ok(Event::Window(window));
                }
                State::Failed(error) => return Err(error),
            }
        }
    }

    /// Takes bytes from `input` until `length` bytes are buffered.
    fn fill(&mut self, length: usize, input: &mut &[u8]) {
        let (taken, rest) = input.split_at(length.saturating_sub(self.held.len()).min(input.len()));
        self.held.extend_from_slice(taken);
        *input = rest;
    }

    /// Drops up to `length` bytes; returns the number of them that have not arrived yet.
    fn skip(&mut self, length: u64, input: &mut &[u8]) -> u64 {
        let most = usize::try_from(length).unwrap_or(usize::MAX);
        let held = most.min(self.held.len());
        self.held.drain(..held);
        let fresh = (most - held).min(input.len());
        *input = &input[fresh..];
        length - (held + fresh) as u64
    }

    /// Stores the part of a window that later windows may copy from.
    fn remember(&mut self, window: &[u8]) {
        let room = self
            .limits
            .max_history
            .as_usize()
            .saturating_sub(self.history.len());
        self.history.extend_from_slice(&window[..room.min(window.len())]);
    }

    fn count_window(&self) -> Result<(), DecodeError> {
        if self.windows >= self.limits.max_windows {
            return Err(DecodeError::TooManyWindows(self.limits.max_windows));
        }
        Ok(())
    }

    fn check_length(&self, header: WindowHeader) -> Result<(), DecodeError> {
        if self.target.saturating_add(header.target_length as u64) > self.limits.max_target.bytes() {
            return Err(DecodeError::TargetTooLarge(self.limits.max_target));
        }
        Ok(())
    }

    /// Decodes the window whose sections are buffered.
    fn window(&mut self, header: &WindowHeader) -> Result<Vec<u8>, DecodeError> {
        let (data, rest) = self.held.split_at(header.data);
        let (instructions, rest) = rest.split_at(header.instructions);
        let origin = match header.origin {
            Origin::Source => self.source.as_ref(),
            Origin::Target => &self.history,
        };
        let window = Window {
            segment: &origin[header.segment_start..][..header.segment_length],
            length: header.target_length,
            data,
            instructions,
            addresses: &rest[..header.addresses],
            cache: AddressCache::new(),
            made: Vec::with_capacity(header.target_length.min(FIRST_ROOM)),
        };
        let made = window.run(&mut self.instructions, self.limits.max_instructions)?;
        if let Some(expected) = header.checksum {
            let found = adler32(&made);
            if found != expected {
                return Err(DecodeError::Checksum {
                    window: self.windows,
                    expected,
                    found,
                });
            }
        }
        Ok(made)
    }
}

/// One window during decoding.
struct Window<'a> {
    segment: &'a [u8],
    length: usize,
    data: &'a [u8],
    instructions: &'a [u8],
    addresses: &'a [u8],
    cache: AddressCache,
    made: Vec<u8>,
}

impl Window<'_> {
    /// Executes all instructions and counts them in `count`.
    fn run(mut self, count: &mut u64, limit: u64) -> Result<Vec<u8>, DecodeError> {
        while let Some((opcode, rest)) = self.instructions.split_first() {
            self.instructions = rest;
            let (first, second) = DEFAULT[usize::from(*opcode)];
            for instruction in [first, second] {
                if instruction == Instruction::Noop {
                    continue;
                }
                *count += 1;
                if *count > limit {
                    return Err(DecodeError::TooManyInstructions(limit));
                }
                self.follow(instruction)?;
            }
        }
        for (section, left) in [(Section::Data, self.data), (Section::Addresses, self.addresses)] {
            if !left.is_empty() {
                let left = left.len();
                return Err(DecodeError::SectionLeft { section, left });
            }
        }
        if self.made.len() != self.length {
            return Err(self.wrong_length(0));
        }
        Ok(self.made)
    }

    fn follow(&mut self, instruction: Instruction) -> Result<(), DecodeError> {
        match instruction {
            Instruction::Noop => Ok(()),
            Instruction::Add { size } => {
                let size = self.size(size)?;
                let (added, rest) = self
                    .data
                    .split_at_checked(size)
                    .ok_or(DecodeError::SectionShort(Section::Data))?;
                self.made.extend_from_slice(added);
                self.data = rest;
                Ok(())
            }
            Instruction::Run => {
                let size = self.size(0)?;
                let (byte, rest) = self
                    .data
                    .split_first()
                    .ok_or(DecodeError::SectionShort(Section::Data))?;
                self.made.resize(self.made.len() + size, *byte);
                self.data = rest;
                Ok(())
            }
            Instruction::Copy { size, mode } => self.copy(size, mode),
        }
    }

    fn copy(&mut self, size: u8, mode: u8) -> Result<(), DecodeError> {
        let size = self.size(size)?;
        // Both are in memory, so their sum does not overflow; addresses have 32 bits.
        let here = u32::try_from(self.segment.len() + self.made.len()).map_err(|_| DecodeError::Integer)?;
        let address = self
            .cache
            .take(mode, here, &mut self.addresses)
            .map_err(|fault| match fault {
                AddressFault::Exhausted => DecodeError::SectionShort(Section::Addresses),
                AddressFault::OutOfRange => DecodeError::Address { here },
            })?;
        let start = address as usize;
        let Some(start) = start.checked_sub(self.segment.len()) else {
            let copied = self.segment[start..].get(..size);
            let copied = copied.ok_or_else(|| DecodeError::CopyCrossesSegment {
                address,
                size: u32::try_from(size).unwrap_or(u32::MAX),
            })?;
            self.made.extend_from_slice(copied);
            return Ok(());
        };
        // A copy may overlap its own output: each iteration doubles the number of bytes that can be copied at
        // once.
        let mut left = size;
        while left > 0 {
            let length = left.min(self.made.len() - start);
            self.made.extend_from_within(start..start + length);
            left -= length;
        }
        Ok(())
    }

    /// The size of an instruction, from the opcode or the next integer, checked against the rest of the
    /// window.
    fn size(&mut self, size: u8) -> Result<usize, DecodeError> {
        let size = if size == 0 {
            integer::take(&mut self.instructions).map_err(|fault| match fault {
                integer::IntegerFault::Incomplete => DecodeError::SectionShort(Section::Instructions),
                integer::IntegerFault::Overflow => DecodeError::Integer,
            })?
        } else {
            u64::from(size)
        };
        usize::try_from(size)
            .ok()
            .filter(|size| *size <= self.length - self.made.len())
            .ok_or_else(|| self.wrong_length(size))
    }

    fn wrong_length(&self, more: u64) -> DecodeError {
        DecodeError::WindowLength {
            made: (self.made.len() as u64).saturating_add(more),
            length: self.length as u64,
        }
    }
}
