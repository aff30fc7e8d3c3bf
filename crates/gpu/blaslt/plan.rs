//! A plan: descriptors and the algorithm for products of one kind, made once on each thread and looked up without a lock.

use super::table::{EPILOGUE_BIAS, Heuristic, OUTER_VECTORS, R_32F, Table};
use crate::host::Handle;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

/// What a plan depends on.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Kind {
    pub device: u32,
    /// Types of the operands and of the result.
    pub types: [c_int; 2],
    pub rows: u64,
    pub features: u64,
    pub k: u64,
    /// Row strides of x, weight and result, in elements.
    pub strides: [i64; 3],
    /// What addresses of x, weight and result are multiples of, in bytes.
    pub alignment: [u32; 3],
    pub bias: bool,
    /// Whether there are scales for each row of x and weight.
    pub scaled: bool,
}

/// Descriptors and an algorithm.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    table: &'static Table,
    pub operation: Handle,
    pub weight: Handle,
    pub x: Handle,
    pub out: Handle,
    pub heuristic: Heuristic,
}

/// Plans that a thread keeps; then it starts anew.
const MOST: usize = 512;

thread_local! {
    /// By library and kind.
    static PLANS: RefCell<HashMap<(usize, Kind), Plan>> = RefCell::new(HashMap::new());
}

impl Plan {
    /// For products of a kind, with at most `workspace` bytes of scratch memory.
    ///
    /// # Errors
    /// In the library's words.
    pub fn of(table: &'static Table, handle: Handle, kind: Kind, workspace: usize) -> Result<Plan, String> {
        let key = (std::ptr::from_ref(table).addr(), kind);
        PLANS.with_borrow_mut(|plans| {
            if let Some(plan) = plans.get(&key) {
                return Ok(*plan);
            }
            if plans.len() == MOST {
                plans.drain().for_each(|(_, plan)| plan.destroy());
            }
            let plan = Plan::make(table, handle, kind, workspace)?;
            plans.insert(key, plan);
            Ok(plan)
        })
    }

    fn make(table: &'static Table, handle: Handle, kind: Kind, workspace: usize) -> Result<Plan, String> {
        let heuristic = Heuristic([0; 32]);
        let mut p = Plan {
            table,
            operation: null_mut(),
            weight: null_mut(),
            x: null_mut(),
            out: null_mut(),
            heuristic,
        };
        let made = p.describe(kind).and_then(|()| p.choose(handle, kind, workspace));
        if made.is_err() {
            p.destroy();
        }
        made.map(|()| p)
    }

    /// Rows of x, weight and result are columns to the library: result = weightᵀ · x, each of `k` rows.
    fn describe(&mut self, kind: Kind) -> Result<(), String> {
        let Kind { types: [of_operands, of_result], rows, features, k, strides: [x, weight, out], .. } = kind;
        let (table, c) = (self.table, &self.table.constants);
        // SAFETY: each call writes what it is given the address of, or reads as many bytes as it is told.
        unsafe {
            table.check(
                "an operation",
                (table.api.MatmulDescCreate)(&mut self.operation, c.compute_32f, R_32F),
            )?;
            self.set(c.transpose_a, &c.op_t)?;
            if kind.bias {
                self.set(c.epilogue, &EPILOGUE_BIAS)?;
                self.set(c.bias_type, &of_result)?;
            }
            if kind.scaled {
                let [modes, _] = c.scales.ok_or_else(|| format!("{} has no scales", table.name))?;
                self.set(modes[0], &OUTER_VECTORS)?;
                self.set(modes[1], &OUTER_VECTORS)?;
            }
            let layout = |to: &mut Handle, of, rows, cols, stride| {
                table.check("a matrix", (table.api.MatrixLayoutCreate)(to, of, rows, cols, stride))
            };
            layout(&mut self.weight, of_operands, k, features, weight)?;
            layout(&mut self.x, of_operands, k, rows, x)?;
            layout(&mut self.out, of_result, features, rows, out)
        }
    }

    fn choose(&mut self, handle: Handle, kind: Kind, workspace: usize) -> Result<(), String> {
        let (table, c) = (self.table, &self.table.constants);
        let mut preference = null_mut();
        // SAFETY: as in `describe`.
        unsafe {
            table.check("a preference", (table.api.MatmulPreferenceCreate)(&mut preference))?;
            let prefer = |attribute, value: *const c_void, bytes| {
                table.check(
                    "a preference",
                    (table.api.MatmulPreferenceSetAttribute)(preference, attribute, value, bytes),
                )
            };
            let [of_x, of_weight, of_out] = kind.alignment;
            let chosen = (|| {
                prefer(c.workspace, (&raw const workspace).cast(), size_of::<usize>())?;
                if let Some([attribute, value]) = c.reduction {
                    prefer(attribute, (&raw const value).cast(), 4)?;
                }
                let attributes = c.alignment.into_iter().flatten();
                for (attribute, bytes) in attributes.zip([of_weight, of_x, of_out, of_out]) {
                    prefer(attribute, (&raw const bytes).cast(), 4)?;
                }
                let mut found = 0;
                let asked = (table.api.MatmulAlgoGetHeuristic)(
                    handle,
                    self.operation,
                    self.weight,
                    self.x,
                    self.out,
                    self.out,
                    preference,
                    1,
                    &mut self.heuristic,
                    &mut found,
                );
                table.check("the choice of an algorithm", asked)?;
                let Kind { rows, features, k, .. } = kind;
                match found {
                    0 => Err(format!("{} has no algorithm for {rows} x {features} x {k}", table.name)),
                    _ => Ok(()),
                }
            })();
            (table.api.MatmulPreferenceDestroy)(preference);
            chosen
        }
    }

    /// Scratch memory that the algorithm wants, in bytes.
    pub fn workspace(&self) -> usize {
        self.heuristic.0[self.table.constants.algorithm_words] as usize
    }

    /// Sets an attribute of the operation.
    ///
    /// # Safety
    /// The attribute has the type of `value`.
    ///
    /// # Errors
    /// In the library's words.
    pub unsafe fn set<T>(&self, attribute: c_int, value: &T) -> Result<(), String> {
        let (value, bytes) = (std::ptr::from_ref(value).cast(), size_of::<T>());
        // SAFETY: by contract.
        let set = unsafe { (self.table.api.MatmulDescSetAttribute)(self.operation, attribute, value, bytes) };
        self.table.check("an operation", set)
    }

    fn destroy(self) {
        // SAFETY: made by this library, and not used again.
        unsafe {
            if !self.operation.is_null() {
                (self.table.api.MatmulDescDestroy)(self.operation);
            }
            for layout in [self.weight, self.x, self.out].into_iter().filter(|l| !l.is_null()) {
                (self.table.api.MatrixLayoutDestroy)(layout);
            }
        }
    }
}
