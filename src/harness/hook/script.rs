//! Hook scripts: Rhai without input, output, modules, clocks or `eval`, compiled once, run under limits.

use std::time::{Duration, Instant};

use rhai::packages::{
    ArithmeticPackage, BasicArrayPackage, BasicFnPackage, BasicIteratorPackage, BasicMapPackage,
    BasicMathPackage, BasicStringPackage, LogicPackage, MoreStringPackage, Package as _,
};
use rhai::{AST, Dynamic, Engine, OptimizationLevel};

/// Operations that a budget of one millisecond stands for, about what a slow core does in it.
pub const OPERATIONS_PER_MS: u64 = 4_000;
/// The clock only ends what counts no operations: this many budgets, and at least [`LEAST_CLOCK`].
const CLOCK_FACTOR: u32 = 20;
const LEAST_CLOCK: Duration = Duration::from_millis(250);
/// The clock is read once in so many operations.
const CLOCK_EVERY: u64 = 256;

const SCRIPT_BYTES: usize = 64 << 10;
const STRING_BYTES: usize = 64 << 10;
/// Elements of arrays and maps, nested ones included; this also bounds how deep values can nest.
const ELEMENTS: usize = 1_000;
const CALL_LEVELS: usize = 16;
const EXPRESSION_DEPTH: usize = 48;
const VARIABLES: usize = 128;
const FUNCTIONS: usize = 64;

/// A compiled script with a function `run(event)`.
#[derive(Clone, Debug)]
pub struct Script {
    ast: AST,
}

/// Why a script cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptFault {
    /// From 1, where known.
    pub line: Option<usize>,
    /// What is wrong.
    pub reason: String,
}

impl Script {
    /// Compiles a script.
    ///
    /// # Errors
    /// Its first fault, with the line.
    pub fn compile(text: &str) -> Result<Self, ScriptFault> {
        let fault = |line, reason: String| Err(ScriptFault { line, reason });
        if text.len() > SCRIPT_BYTES {
            return fault(
                None,
                format!("{} bytes, at most {SCRIPT_BYTES}", text.len()),
            );
        }
        let engine = engine(0);
        let ast = match engine.compile(text) {
            Ok(ast) => ast,
            Err(error) => return fault(error.position().line(), error.err_type().to_string()),
        };
        if let Some(statement) = ast.statements().first() {
            let line = statement.position().line();
            return fault(
                line,
                "only functions: a statement outside of them would never run".to_owned(),
            );
        }
        let run = ast.iter_functions().find(|function| function.name == "run");
        match run.map(|function| function.params.len()) {
            Some(1) => Ok(Self { ast }),
            Some(count) => fault(
                None,
                format!("run takes {count} parameters, must take one: fn run(event)"),
            ),
            None => fault(None, "there is no fn run(event)".to_owned()),
        }
    }

    /// Calls `run(event)` within `budget`.
    ///
    /// # Errors
    /// What the script threw, or which limit ended it.
    pub fn run(
        &self,
        event: Dynamic,
        budget: Duration,
    ) -> Result<Dynamic, Box<rhai::EvalAltResult>> {
        let operations = u64::try_from(budget.as_millis())
            .unwrap_or(u64::MAX)
            .saturating_mul(OPERATIONS_PER_MS);
        let mut engine = engine(operations.max(1));
        let end = Instant::now() + (budget * CLOCK_FACTOR).max(LEAST_CLOCK);
        engine.on_progress(move |count| {
            let late = count.is_multiple_of(CLOCK_EVERY) && Instant::now() > end;
            late.then_some(Dynamic::UNIT)
        });
        let options = rhai::CallFnOptions::new().eval_ast(false);
        let mut scope = rhai::Scope::new();
        engine.call_fn_with_options(options, &mut scope, &self.ast, "run", (event,))
    }
}

/// An engine that can compute and nothing else. `LanguageCorePackage` stays out: it sleeps.
fn engine(operations: u64) -> Engine {
    let mut engine = Engine::new_raw();
    ArithmeticPackage::new().register_into_engine(&mut engine);
    LogicPackage::new().register_into_engine(&mut engine);
    BasicStringPackage::new().register_into_engine(&mut engine);
    MoreStringPackage::new().register_into_engine(&mut engine);
    BasicIteratorPackage::new().register_into_engine(&mut engine);
    BasicFnPackage::new().register_into_engine(&mut engine);
    BasicArrayPackage::new().register_into_engine(&mut engine);
    BasicMapPackage::new().register_into_engine(&mut engine);
    BasicMathPackage::new().register_into_engine(&mut engine);
    // Names inside a script's strings could still call what is only hidden from its text, so `eval` is replaced too.
    engine.disable_symbol("eval");
    engine.disable_symbol("print");
    engine.disable_symbol("debug");
    engine
        .set_optimization_level(OptimizationLevel::None)
        .set_max_operations(operations)
        .set_max_call_levels(CALL_LEVELS)
        .set_max_expr_depths(EXPRESSION_DEPTH, EXPRESSION_DEPTH)
        .set_max_variables(VARIABLES)
        .set_max_functions(FUNCTIONS)
        .set_max_string_size(STRING_BYTES)
        .set_max_array_size(ELEMENTS)
        .set_max_map_size(ELEMENTS);
    #[cfg(test)]
    engine.register_fn("panic_in_test", || -> () { panic!("asked for") });
    engine
}
