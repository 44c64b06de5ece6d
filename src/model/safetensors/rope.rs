//! Rotary positions in `config.json`: `rope_theta` and `rope_scaling`, or both in `rope_parameters`; the kind of scaling
//! as `rope_type` or, in older files, `type`.

use std::f64::consts::TAU;

use super::json::Object;
use crate::model::gguf::{Fault, ModelFileError};

/// Largest head whose factors are computed; the decoder's own bound is lower.
const MAX_HEAD_DIM: u32 = 4096;
/// The base of layers with a window, beside the one that is read.
const LOCAL_BASE: f32 = 10_000.0;

/// How positions rotate.
#[derive(Debug)]
pub(super) struct Rope {
    pub(super) base: f32,
    /// Where the base was found.
    pub(super) base_field: String,
    pub(super) scaling: Option<Scaling>,
    /// What each frequency of a head is divided by.
    pub(super) factors: Option<Vec<f32>>,
}

/// A scaling that is left to the decoder.
#[derive(Debug)]
pub(super) struct Scaling {
    /// GGUF's name of it.
    pub(super) kind: &'static str,
    pub(super) factor: f32,
    pub(super) original_context: Option<u32>,
    /// Turns within the original context from which on a rotation is not scaled, and up to which it wholly is.
    pub(super) beta_fast: Option<f32>,
    pub(super) beta_slow: Option<f32>,
    /// Where it was found.
    pub(super) field: String,
}

impl Rope {
    /// `windows`: layers with a window have a base of their own.
    pub(super) fn read(
        config: &Object<'_>,
        head_dim: u32,
        default_base: f32,
        windows: bool,
    ) -> Result<Self, ModelFileError> {
        let new = config.opt_object("rope_parameters")?;
        let old = config.opt_object("rope_scaling")?;
        let (mut settings, mut place) = match (new, old) {
            (Some(new), _) => (Some(new), "rope_parameters"),
            (None, old) => (old, "rope_scaling"),
        };
        if windows {
            local(config, settings.as_ref())?;
            if let Some(all) = &settings
                && let Some(full) = all.opt_object("full_attention")?
            {
                (settings, place) = (Some(full), "rope_parameters.full_attention");
            }
        }
        let inside = match &settings {
            Some(settings) => settings.opt_f32("rope_theta")?,
            None => None,
        };
        let (base, base_field) = match inside {
            Some(base) => (base, format!("{place}.rope_theta")),
            None => {
                let base = config.opt_f32("rope_theta")?.unwrap_or(default_base);
                (base, "rope_theta".to_owned())
            }
        };
        let mut rope = Self {
            base,
            base_field,
            scaling: None,
            factors: None,
        };
        if let Some(settings) = settings {
            rope.scale(&settings, place, head_dim)?;
        }
        Ok(rope)
    }

    fn scale(
        &mut self,
        settings: &Object<'_>,
        place: &str,
        head_dim: u32,
    ) -> Result<(), ModelFileError> {
        let (named, kind) = match settings.opt_str("rope_type")? {
            Some(kind) => ("rope_type", kind),
            None => ("type", settings.opt_str("type")?.unwrap_or("default")),
        };
        let known: &[&str] = match kind {
            "default" => &[],
            "linear" => &["factor"],
            "llama3" => &[
                "factor",
                "low_freq_factor",
                "high_freq_factor",
                "original_max_position_embeddings",
            ],
            "yarn" => &[
                "factor",
                "original_max_position_embeddings",
                "beta_fast",
                "beta_slow",
            ],
            _ => return Err(settings.unsupported(named, format!("rope scaling {kind:?}"))),
        };
        for field in settings.fields() {
            if !known.contains(&field) && !["rope_type", "type", "rope_theta"].contains(&field) {
                return Err(
                    settings.unsupported(field, format!("this setting of rope scaling {kind:?}"))
                );
            }
        }
        match kind {
            "linear" => self.scaling = Some(scaling("linear", settings, place)?),
            "yarn" => {
                let original = settings.u32("original_max_position_embeddings")?;
                self.scaling = Some(Scaling {
                    original_context: Some(original),
                    beta_fast: settings.opt_f32("beta_fast")?,
                    beta_slow: settings.opt_f32("beta_slow")?,
                    ..scaling("yarn", settings, place)?
                });
            }
            "llama3" => self.factors = Some(llama3(settings, self.base, head_dim)?),
            _ => {}
        }
        Ok(())
    }
}

/// Layers with a window have their own base, which must be the usual one.
fn local(config: &Object<'_>, settings: Option<&Object<'_>>) -> Result<(), ModelFileError> {
    let usual = |object: &Object<'_>, field: &str| match object.opt_f32(field)? {
        Some(base) if base != LOCAL_BASE => {
            Err(object.unsupported(field, format!("a base of {base} in layers with a window")))
        }
        _ => Ok(()),
    };
    usual(config, "rope_local_base_freq")?;
    let Some(settings) = settings else {
        return Ok(());
    };
    let Some(sliding) = settings.opt_object("sliding_attention")? else {
        return Ok(());
    };
    usual(&sliding, "rope_theta")?;
    match sliding.opt_str("rope_type")? {
        Some(kind) if kind != "default" => Err(sliding.unsupported(
            "rope_type",
            format!("rope scaling {kind:?} in layers with a window"),
        )),
        _ => Ok(()),
    }
}

fn scaling(
    kind: &'static str,
    settings: &Object<'_>,
    place: &str,
) -> Result<Scaling, ModelFileError> {
    Ok(Scaling {
        kind,
        factor: factor(settings)?,
        original_context: None,
        beta_fast: None,
        beta_slow: None,
        field: place.to_owned(),
    })
}

fn factor(settings: &Object<'_>) -> Result<f32, ModelFileError> {
    let factor = settings.f32("factor")?;
    if factor.is_finite() && factor >= 1.0 {
        return Ok(factor);
    }
    let reason = format!("{factor} is not a number from 1 on");
    Err(settings.error("factor", Fault::Invalid(reason)))
}

/// What Llama 3.1 divides its frequencies by: slow rotations by the factor, fast ones not at all, those between by
/// something between.
fn llama3(settings: &Object<'_>, base: f32, head_dim: u32) -> Result<Vec<f32>, ModelFileError> {
    let factor = f64::from(factor(settings)?);
    let low = f64::from(settings.f32("low_freq_factor")?);
    let high = f64::from(settings.f32("high_freq_factor")?);
    let original = f64::from(settings.u32("original_max_position_embeddings")?);
    // Written so that no other order of the two, and no NaN, passes.
    if !(low > 0.0 && high > low && high.is_finite()) {
        let reason = format!("{high} is not above low_freq_factor {low}, which is above 0");
        return Err(settings.error("high_freq_factor", Fault::Invalid(reason)));
    }
    if head_dim > MAX_HEAD_DIM {
        let reason = format!("heads of {head_dim}, more than {MAX_HEAD_DIM}");
        return Err(settings.error("head_dim", Fault::Invalid(reason)));
    }
    let divisor = |index: u32| {
        let frequency = f64::from(base).powf(-2.0 * f64::from(index) / f64::from(head_dim));
        // How often the rotation turns within the context that the model was first made for.
        let turns = original * frequency / TAU;
        let share = ((turns - low) / (high - low)).clamp(0.0, 1.0);
        (1.0 / ((1.0 - share) / factor + share)) as f32
    };
    Ok((0..head_dim / 2).map(divisor).collect())
}
