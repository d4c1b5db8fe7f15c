//! SplitMix64: the whole of a run follows from its seed, on every machine and with every compiler.

#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to `n - 1`; 0 when there is nothing to choose from. (The bias of the remainder does not matter here.)
    pub fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { (self.draw() % n as u64) as usize }
    }

    /// True in `percent` of a hundred.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        if from.is_empty() { None } else { from.get(self.below(from.len())) }
    }

    /// One of the entries, each as likely as its weight says.
    pub fn weighted<T: Copy>(&mut self, from: &[(usize, T)]) -> T {
        let mut left = self.below(from.iter().map(|(weight, _)| weight).sum());
        for (weight, thing) in from {
            if left < *weight {
                return *thing;
            }
            left -= weight;
        }
        from[0].1
    }

    /// Thirty-two upper-case hex digits, the shape of Chromium's ids.
    pub fn hex(&mut self) -> String {
        format!("{:016X}{:016X}", self.draw(), self.draw())
    }

    /// A dashed guid, the shape of a download's id.
    pub fn guid(&mut self) -> String {
        let (a, b) = (self.draw(), self.draw());
        format!(
            "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
            a >> 32,
            (a >> 16) & 0xffff,
            a & 0xfff,
            b >> 52,
            b & 0xffff_ffff_ffff
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference values of SplitMix64: were the generator changed, every seed in a bug report would mean another run.
    #[test]
    fn it_is_splitmix64() {
        let mut rng = Rng::new(1_234_567);
        assert_eq!([rng.draw(), rng.draw()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn ids_have_the_shapes_of_chromiums() {
        let mut rng = Rng::new(7);
        assert_eq!(rng.hex().len(), 32);
        assert_eq!(rng.guid().len(), 36);
    }
}
