//! Instruction sets, found out once. A value exists only for what this processor has, so to hold one is the proof.

use std::sync::OnceLock;

/// A path through the kernels that this processor can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Isa(Path);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Path {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// The fastest.
    #[must_use]
    pub fn best() -> Self {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| {
            *Self::available()
                .last()
                .expect("the portable path is always there")
        })
    }

    /// All, slowest first.
    #[must_use]
    pub fn available() -> Vec<Self> {
        #[allow(unused_mut, reason = "other processors have the portable path only")]
        let mut found = vec![Self(Path::Portable)];
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c");
            if avx2 {
                found.push(Self(Path::Avx2));
            }
            if avx2
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vnni")
            {
                found.push(Self(Path::Avx512));
            }
        }
        found
    }

    /// For logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0 {
            Path::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Path::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Path::Avx512 => "avx512-vnni",
        }
    }

    pub(crate) fn path(self) -> Path {
        self.0
    }
}
