//! `compere harness show | render | tokens`: what a harness holds, and what the model is told.

use std::path::Path;
use std::sync::Arc;

use super::{Failure, load_or_complain};
use crate::app;
use crate::cli::ConfigArgs;
use crate::config;
use crate::telemetry::EngineStats;

pub(super) fn show(path: &Path) -> Result<(), Failure> {
    let loaded = load_or_complain(path)?;
    let harness = &loaded.harness;
    println!("name      {}", harness.name);
    println!("version   {}", harness.version);
    println!(
        "language  {}",
        harness.settings.language.as_deref().unwrap_or("-")
    );
    let budgets = harness.settings.budgets;
    println!(
        "budgets   {} rounds, {} tokens",
        budgets.max_rounds, budgets.max_tokens
    );
    for skill in harness.skills.values() {
        let how = if skill.inline {
            "inline"
        } else {
            "on activation"
        };
        let tools = if skill.tools.is_empty() {
            "no tools".to_owned()
        } else {
            skill.tools.join(" ")
        };
        println!(
            "skill     {} ({how}, priority {}, {tools})",
            skill.name, skill.priority
        );
    }
    for hook in &harness.hooks {
        println!(
            "hook      {} ({}, order {})",
            hook.name,
            hook.point.word(),
            hook.order
        );
    }
    for name in harness.tools.keys() {
        println!("tool      {name}");
    }
    for card in &harness.offered {
        println!("offered   {}", card.name);
    }
    for name in harness.prompts.names() {
        println!("prompt    {name}");
    }
    for product in harness.catalog.iter() {
        println!("product   {} ({} facts)", product.id, product.facts.len());
    }
    for (name, words) in &harness.lists {
        println!("list      {name} ({} words)", words.len());
    }
    for section in &harness.system {
        let length = section.text.chars().count();
        println!(
            "section   {} {} ({length} characters)",
            section.kind.word(),
            section.fingerprint
        );
    }
    Ok(())
}

pub(super) fn render(path: &Path) -> Result<(), Failure> {
    let loaded = load_or_complain(path)?;
    for (index, section) in loaded.harness.system.iter().enumerate() {
        if index > 0 {
            println!();
        }
        println!(
            "--- {} {} ---\n{}",
            section.kind.word(),
            section.fingerprint,
            section.text
        );
    }
    Ok(())
}

pub(super) fn tokens(path: &Path, args: &ConfigArgs) -> Result<(), Failure> {
    let loaded = load_or_complain(path)?;
    let config = config::load(args)?;
    let speaker = app::speaker(&config, Arc::new(EngineStats::default()))?;
    let tokenizer = speaker.model.template.tokenizer();
    let mut sum = 0;
    for section in &loaded.harness.system {
        let count = tokenizer.encode(&section.text).len();
        sum += count;
        println!(
            "{count:>7}  {} {}",
            section.kind.word(),
            section.fingerprint
        );
    }
    println!("{sum:>7}  system prompt");
    for skill in loaded.harness.skills.values().filter(|skill| !skill.inline) {
        println!(
            "{:>7}  skill {} once activated",
            tokenizer.encode(&skill.body).len(),
            skill.name
        );
    }
    speaker.engine.shutdown();
    Ok(())
}
