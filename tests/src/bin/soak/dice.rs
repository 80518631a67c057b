//! Random numbers that a seed repeats (xorshift64*).

/// A source of random numbers.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        // The state must not be zero.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    /// A number below `limit`, which is not 0.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        // The remainder fits where `limit` does.
        #[allow(clippy::cast_possible_truncation)]
        let number = (self.next() % limit as u64) as usize;
        number
    }

    pub(crate) fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next().to_le_bytes()[0]).collect()
    }

    /// Changes a few bytes: another bit, another byte, some bytes more, or some fewer.
    pub(crate) fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(8) {
            if bytes.is_empty() {
                return;
            }
            let at = self.below(bytes.len());
            match self.below(5) {
                0 => bytes[at] ^= 1 << self.below(8),
                1 => bytes[at] = *self.pick(&[&0, &0xff, &b'"', &b'9', &b'{', &b'-', &0x1b]),
                2 => {
                    let length = 1 + self.below(40);
                    let more = self.bytes(length);
                    bytes.splice(at..at, more);
                }
                3 => {
                    let end = (at + 1 + self.below(40)).min(bytes.len());
                    bytes.drain(at..end);
                }
                _ => {
                    // A piece from elsewhere.
                    let from = self.below(bytes.len());
                    let end = (from + 1 + self.below(60)).min(bytes.len());
                    let piece = bytes[from..end].to_vec();
                    bytes.splice(at..at, piece);
                }
            }
        }
    }
}
