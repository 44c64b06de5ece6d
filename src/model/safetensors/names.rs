//! Tensor names: those of Hugging Face checkpoints beside those of GGUF.

/// Tensors outside the layers.
const GLOBAL: [(&str, &str); 3] = [
    ("model.embed_tokens.weight", "token_embd.weight"),
    ("model.norm.weight", "output_norm.weight"),
    ("lm_head.weight", "output.weight"),
];
/// Parts of a layer, of every architecture.
const LAYER: [(&str, &str); 10] = [
    ("input_layernorm", "attn_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"),
    ("self_attn.q_norm", "attn_q_norm"),
    ("self_attn.k_norm", "attn_k_norm"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
];
/// The norm before the feed-forward layer, where there is one norm for each half of a layer.
const TWO_NORMS: [(&str, &str); 1] = [("post_attention_layernorm", "ffn_norm")];
/// The same where the outputs of both halves are normalised too.
const FOUR_NORMS: [(&str, &str); 3] = [
    ("post_attention_layernorm", "post_attention_norm"),
    ("pre_feedforward_layernorm", "ffn_norm"),
    ("post_feedforward_layernorm", "post_ffw_norm"),
];
/// Constants that old checkpoints store although the configuration says the same.
const COMPUTED: &str = ".self_attn.rotary_emb.inv_freq";

/// The names of one architecture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names {
    /// Whether the outputs of both halves of a layer are normalised too.
    pub(super) four_norms: bool,
}

impl Names {
    fn norms(self) -> &'static [(&'static str, &'static str)] {
        if self.four_norms {
            &FOUR_NORMS
        } else {
            &TWO_NORMS
        }
    }

    fn parts(self) -> impl Iterator<Item = &'static (&'static str, &'static str)> {
        LAYER.iter().chain(self.norms())
    }

    /// GGUF's name of a tensor; `None` where it has none, so that nobody takes it for something else.
    pub(super) fn in_gguf(self, name: &str) -> Option<String> {
        if let Some((_, gguf)) = GLOBAL.iter().find(|(hub, _)| *hub == name) {
            return Some((*gguf).to_owned());
        }
        let (layer, part, ending) = split(name.strip_prefix("model.layers.")?)?;
        let (_, gguf) = self.parts().find(|(hub, _)| *hub == part)?;
        Some(format!("blk.{layer}.{gguf}.{ending}"))
    }

    /// The name here of what GGUF calls `name`.
    pub(super) fn in_hub(self, name: &str) -> Option<String> {
        if let Some((hub, _)) = GLOBAL.iter().find(|(_, gguf)| *gguf == name) {
            return Some((*hub).to_owned());
        }
        let (layer, part, ending) = split(name.strip_prefix("blk.")?)?;
        let (hub, _) = self.parts().find(|(_, gguf)| *gguf == part)?;
        Some(format!("model.layers.{layer}.{hub}.{ending}"))
    }
}

/// Whether a tensor repeats what is computed from the configuration.
pub(super) fn is_computed(name: &str) -> bool {
    name.ends_with(COMPUTED)
}

/// `0.self_attn.q_proj.weight` as layer, part and ending.
fn split(name: &str) -> Option<(u32, &str, &str)> {
    let (layer, rest) = name.split_once('.')?;
    let (part, ending) = rest.rsplit_once('.')?;
    let number: u32 = layer.parse().ok()?;
    // One spelling a layer: `01` would be a second name of layer 1.
    let plain = number.to_string() == layer && (ending == "weight" || ending == "bias");
    plain.then_some((number, part, ending))
}
