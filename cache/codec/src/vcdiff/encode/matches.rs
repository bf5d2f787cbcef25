//! Earlier occurrences of the target's bytes, in the source and in the target.

/// The shortest copy that can save bytes: opcode and address take at least two bytes.
pub(super) const MIN_MATCH: usize = 4;

/// Source segment and target window. Addresses continue from the source into the target (RFC 3284).
#[derive(Clone, Copy, Debug)]
pub(super) struct Texts<'a> {
    pub(super) source: &'a [u8],
    pub(super) target: &'a [u8],
}

impl<'a> Texts<'a> {
    /// Both texts must be far shorter than 2^31 bytes.
    pub(super) fn new(source: &'a [u8], target: &'a [u8]) -> Self {
        debug_assert!(source.len() < 1 << 30 && target.len() < 1 << 30);
        Self { source, target }
    }

    /// The address of the target's first byte.
    pub(super) fn border(self) -> u32 {
        index(self.source.len())
    }

    pub(super) fn target_length(self) -> u32 {
        index(self.target.len())
    }

    /// A place in the target as a number of 32 bits.
    pub(super) fn position(self, at: usize) -> u32 {
        index(at)
    }

    /// The address of the target's byte `at`.
    pub(super) fn here(self, at: usize) -> u32 {
        index(self.source.len() + at)
    }

    /// The text from `address` on, and the target from `at` on. `address` must be before the address of `at`.
    fn both(self, address: u32, at: usize) -> (&'a [u8], &'a [u8]) {
        let address = address as usize;
        let earlier = match address.checked_sub(self.source.len()) {
            None => &self.source[address..],
            Some(place) => &self.target[place..],
        };
        (earlier, &self.target[at..])
    }

    /// Number of equal bytes from `address` and from target position `at` on. `address` must be before the
    /// address of `at`.
    pub(super) fn common(self, address: u32, at: usize) -> usize {
        let (earlier, wanted) = self.both(address, at);
        prefix(earlier, wanted)
    }

    /// As `common`, if the number exceeds `least`; quick to reject.
    pub(super) fn common_beyond(self, address: u32, at: usize, least: usize) -> Option<usize> {
        let (earlier, wanted) = self.both(address, at);
        if earlier.get(least)? != wanted.get(least)? {
            return None;
        }
        Some(prefix(earlier, wanted)).filter(|size| *size > least)
    }
}

/// Texts are far shorter than 2^32 bytes.
pub(super) fn index(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// Length of the common prefix of two texts.
fn prefix(one: &[u8], other: &[u8]) -> usize {
    let mut length = 0;
    for (a, b) in one.chunks_exact(8).zip(other.chunks_exact(8)) {
        let difference = word(a) ^ word(b);
        if difference != 0 {
            return length + difference.trailing_zeros() as usize / 8;
        }
        length += 8;
    }
    let rest = one[length..].iter().zip(&other[length..]);
    length + rest.take_while(|(a, b)| a == b).count()
}

fn word(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Hash of the first `K` bytes, which must exist; `K` is 4 or a multiple of 8.
fn hash<const K: usize>(bytes: &[u8], bits: u32) -> usize {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut mixed = 0_u64;
    if K == 4 {
        mixed = bytes
            .first_chunk()
            .map_or(0, |bytes| u64::from(u32::from_le_bytes(*bytes)));
        mixed = mixed.wrapping_mul(MIX);
    } else {
        for eight in bytes[..K].chunks_exact(8) {
            mixed = (mixed ^ word(eight)).wrapping_mul(MIX);
            mixed ^= mixed >> 29;
        }
        mixed = mixed.wrapping_mul(MIX);
    }
    usize::try_from(mixed >> (64 - bits)).unwrap_or_default()
}

/// Binary logarithm of the table size for `length` entries.
fn table_bits(length: usize) -> u32 {
    (length.max(1).ilog2() + 1).clamp(8, 22)
}

/// All places of a text by the hash of the `K` bytes there, in ascending order.
pub(super) struct Index<const K: usize> {
    bits: u32,
    /// Index of the first place of each hash; the places of the next hash follow.
    starts: Vec<u32>,
    places: Vec<u32>,
}

impl<const K: usize> Index<K> {
    pub(super) fn new(text: &[u8]) -> Self {
        let bits = table_bits(text.len());
        let mut starts = vec![0_u32; (1 << bits) + 1];
        for window in text.windows(K) {
            starts[hash::<K>(window, bits) + 1] += 1;
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        let mut next = starts.clone();
        let mut places = vec![0; sum as usize];
        for (place, window) in (0..).zip(text.windows(K)) {
            let next = &mut next[hash::<K>(window, bits)];
            places[*next as usize] = place;
            *next += 1;
        }
        Self { bits, starts, places }
    }

    /// The places where `bytes` may begin; there are no others.
    pub(super) fn places(&self, bytes: &[u8]) -> &[u32] {
        if bytes.len() < K {
            return &[];
        }
        let hash = hash::<K>(bytes, self.bits);
        &self.places[self.starts[hash] as usize..self.starts[hash + 1] as usize]
    }
}

/// End of a chain.
const NONE: u32 = u32::MAX;

/// Stored places by the hash of the `K` bytes there, the latest first.
pub(super) struct Chains<const K: usize> {
    bits: u32,
    /// Number of the last stored place, by hash.
    heads: Vec<u32>,
    /// Each place, and the number of the previous place in its chain.
    places: Vec<(u32, u32)>,
}

impl<const K: usize> Chains<K> {
    /// Returns chains for about `length` places.
    pub(super) fn new(length: usize) -> Self {
        let bits = table_bits(length);
        Self {
            bits,
            heads: vec![NONE; 1 << bits],
            places: Vec::new(),
        }
    }

    /// Stores that `bytes` begin at `place`.
    pub(super) fn insert(&mut self, bytes: &[u8], place: u32) {
        if bytes.len() >= K {
            let head = &mut self.heads[hash::<K>(bytes, self.bits)];
            let number = index(self.places.len());
            self.places.push((place, *head));
            *head = number;
        }
    }

    /// The stored places where `bytes` may begin, the latest first.
    pub(super) fn places(&self, bytes: &[u8]) -> impl Iterator<Item = u32> {
        let head = if bytes.len() < K {
            NONE
        } else {
            self.heads[hash::<K>(bytes, self.bits)]
        };
        let entry = |number: u32| self.places.get(number as usize).copied();
        std::iter::successors(entry(head), move |(_, before)| entry(*before)).map(|(place, _)| place)
    }
}

/// The last place by the hash of the `K` bytes there.
pub(super) struct Latest<const K: usize> {
    bits: u32,
    heads: Vec<u32>,
}

impl<const K: usize> Latest<K> {
    /// Returns a table for about `length` places.
    pub(super) fn new(length: usize) -> Self {
        let bits = table_bits(length);
        Self {
            bits,
            heads: vec![NONE; 1 << bits],
        }
    }

    /// Stores that `bytes` begin at `place`.
    pub(super) fn insert(&mut self, bytes: &[u8], place: u32) {
        if bytes.len() >= K {
            self.heads[hash::<K>(bytes, self.bits)] = place;
        }
    }

    /// The last place where `bytes` may begin.
    pub(super) fn place(&self, bytes: &[u8]) -> Option<u32> {
        if bytes.len() < K {
            return None;
        }
        Some(self.heads[hash::<K>(bytes, self.bits)]).filter(|place| *place != NONE)
    }
}
