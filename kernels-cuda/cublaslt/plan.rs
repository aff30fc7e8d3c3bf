//! A plan: descriptors and the algorithm for products of one kind, made once on each thread and looked up without a lock.

use super::api::{self, Heuristic, Lt, check};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};

/// What a plan depends on.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kind {
    pub device: u32,
    /// CUDA_R_*
    pub dtype: c_int,
    pub rows: u64,
    pub features: u64,
    pub k: u64,
    /// Row strides of x, weight and result, in elements.
    pub strides: [i64; 3],
    /// What addresses of x, weight and result are multiples of, in bytes.
    pub alignment: [u32; 3],
    pub bias: bool,
}

/// Descriptors and an algorithm.
#[derive(Clone, Copy)]
pub struct Plan {
    pub operation: *mut c_void,
    pub weight: *mut c_void,
    pub x: *mut c_void,
    pub out: *mut c_void,
    pub heuristic: Heuristic,
}

/// Plans that a thread keeps; then it starts anew.
const MOST: usize = 512;

thread_local! {
    static PLANS: RefCell<HashMap<Kind, Plan>> = RefCell::new(HashMap::new());
}

impl Plan {
    /// For products of a kind, with at most `workspace` bytes of scratch memory.
    ///
    /// # Errors
    /// In the library's words.
    pub fn of(lt: &Lt, handle: *mut c_void, kind: Kind, workspace: usize) -> Result<Plan, String> {
        PLANS.with_borrow_mut(|plans| {
            if let Some(plan) = plans.get(&kind) {
                return Ok(*plan);
            }
            if plans.len() == MOST {
                plans.drain().for_each(|(_, plan)| plan.destroy(lt));
            }
            let plan = Plan::make(lt, handle, kind, workspace)?;
            plans.insert(kind, plan);
            Ok(plan)
        })
    }

    fn make(lt: &Lt, handle: *mut c_void, kind: Kind, workspace: usize) -> Result<Plan, String> {
        let null = std::ptr::null_mut();
        let mut p = Plan { operation: null, weight: null, x: null, out: null, heuristic: Heuristic::EMPTY };
        let made = p.describe(lt, handle, kind, workspace);
        if made.is_err() {
            p.destroy(lt);
        }
        made.map(|()| p)
    }

    /// Rows of x, weight and result are columns to the library: result = weightᵀ · x, each of `k` rows.
    fn describe(&mut self, lt: &Lt, handle: *mut c_void, kind: Kind, workspace: usize) -> Result<(), String> {
        let Kind { dtype, rows, features, k, strides: [x, weight, out], .. } = kind;
        let mut preference = std::ptr::null_mut();
        // SAFETY: each call writes what it is given the address of, or reads as many bytes as it is told.
        unsafe {
            check(
                "cublasLtMatmulDescCreate",
                (lt.cublasLtMatmulDescCreate)(&mut self.operation, api::COMPUTE_32F, api::R_32F),
            )?;
            self.set(lt, api::DESC_TRANSA, &api::OP_T)?;
            if kind.bias {
                self.set(lt, api::DESC_EPILOGUE, &api::EPILOGUE_BIAS)?;
            }
            let layout = |to: &mut *mut c_void, rows, cols, stride| {
                let created = (lt.cublasLtMatrixLayoutCreate)(to, dtype, rows, cols, stride);
                check("cublasLtMatrixLayoutCreate", created)
            };
            layout(&mut self.weight, k, features, weight)?;
            layout(&mut self.x, k, rows, x)?;
            layout(&mut self.out, features, rows, out)?;
            check("cublasLtMatmulPreferenceCreate", (lt.cublasLtMatmulPreferenceCreate)(&mut preference))?;
            let prefer = |attribute, value: *const c_void, bytes| {
                let set = (lt.cublasLtMatmulPreferenceSetAttribute)(preference, attribute, value, bytes);
                check("cublasLtMatmulPreferenceSetAttribute", set)
            };
            let [of_x, of_weight, of_out] = kind.alignment;
            let reduction = api::REDUCTION_COMPUTE_TYPE;
            let chosen = (|| {
                prefer(api::PREF_WORKSPACE, (&raw const workspace).cast(), size_of::<usize>())?;
                prefer(api::PREF_REDUCTION, (&raw const reduction).cast(), 4)?;
                for (attribute, bytes) in
                    api::PREF_ALIGNMENT.into_iter().zip([of_weight, of_x, of_out, of_out])
                {
                    prefer(attribute, (&raw const bytes).cast(), 4)?;
                }
                let mut found = 0;
                let asked = (lt.cublasLtMatmulAlgoGetHeuristic)(
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
                check("cublasLtMatmulAlgoGetHeuristic", asked)?;
                match found {
                    0 => Err(format!("cuBLASLt has no algorithm for {rows} x {features} x {k}")),
                    _ => Ok(()),
                }
            })();
            (lt.cublasLtMatmulPreferenceDestroy)(preference);
            chosen
        }
    }

    /// Sets an attribute of the operation.
    ///
    /// # Safety
    /// The attribute has the type of `value`, and the plan is of this library.
    ///
    /// # Errors
    /// In the library's words.
    pub unsafe fn set<T>(&self, lt: &Lt, attribute: c_int, value: &T) -> Result<(), String> {
        // SAFETY: by contract.
        let set = unsafe {
            (lt.cublasLtMatmulDescSetAttribute)(
                self.operation,
                attribute,
                std::ptr::from_ref(value).cast(),
                size_of::<T>(),
            )
        };
        check("cublasLtMatmulDescSetAttribute", set)
    }

    fn destroy(self, lt: &Lt) {
        // SAFETY: made by this library, and not used again.
        unsafe {
            if !self.operation.is_null() {
                (lt.cublasLtMatmulDescDestroy)(self.operation);
            }
            for layout in [self.weight, self.x, self.out].into_iter().filter(|l| !l.is_null()) {
                (lt.cublasLtMatrixLayoutDestroy)(layout);
            }
        }
    }
}
