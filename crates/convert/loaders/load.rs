//! Loads an exported kernel and launches it through cudarc 0.19 and `serde_json`.
use cudarc::driver::{CudaContext, CudaModule, CudaStream, LaunchConfig, PushKernelArg, result, sys};
use cudarc::nvrtc::Ptx;
use serde_json::Value;
use std::{collections::BTreeMap, error::Error, fs, path::Path, sync::Arc};
type Result<T> = std::result::Result<T, Box<dyn Error>>;
/// The dims, `&` with a tensor's name for its address, and `&` for that of the workspace.
pub type Names = BTreeMap<String, f64>;
/// The value of an expression. Whole numbers are exact up to 2^53 and truncated toward zero.
fn value(part: &Value, names: &Names, whole: bool) -> Result<f64> {
    if let Some(name) = part.as_str() { return Ok(*names.get(name).ok_or_else(|| format!("{name} has no value"))?); }
    let Some([operation, parts @ ..]) = part.as_array().map(Vec::as_slice) else { return Ok(part.as_f64().ok_or("no number")?); };
    let operands = parts.iter().map(|part| value(part, names, whole)).collect::<Result<Vec<_>>>()?;
    let [a, b, c] = [0, 1, 2].map(|at| operands.get(at).copied().unwrap_or(0.0));
    Ok(match operation.as_str().unwrap_or_default() {
        "+" => a + b, "-" => a - b, "*" => a * b, "%" => a % b, "<" => f64::from(a < b), "<=" => f64::from(a <= b),
        "==" => f64::from(a == b), "min" => a.min(b), "max" => a.max(b), "cdiv" => (a / b).ceil(), "?" => if a != 0.0 { b } else { c },
        "/" => if whole { (a / b).trunc() } else { a / b }, "sqrt" => a.sqrt(), "exp2" => a.exp2(), other => return Err(other.into()),
    })
}
pub struct Kernel { plan: Value, module: Arc<CudaModule> }
impl Kernel {
    pub fn load(path: &Path, context: &Arc<CudaContext>) -> Result<Self> {
        let plan: Value = serde_json::from_str(&fs::read_to_string(path)?)?;
        let (major, minor) = context.compute_capability()?;
        let code = fs::read(path.with_extension("cubin")).ok().filter(|_| plan["compute_capability"] == 10 * major + minor);
        if let Some(Ok(module)) = code.map(|code| context.load_module(Ptx::from_binary(code))) { return Ok(Self { plan, module }); }
        // The driver compiles the PTX; the verdict is about the machine code.
        Ok(Self { plan, module: context.load_module(Ptx::from_src(fs::read_to_string(path.with_extension("ptx"))?))? })
    }
    pub fn workspace_bytes(&self, names: &Names) -> Result<usize> { Ok(value(&self.plan["workspace_bytes"], names, true)? as usize) }
    /// # Safety
    /// The addresses are of device memory of the tensors' sizes and of [`Self::workspace_bytes`].
    pub unsafe fn launch(&self, stream: &CudaStream, names: &Names) -> Result<()> {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let number = |part: &Value| value(part, names, true);
        let refused = list(&self.plan["requires"]).into_iter().find(|one| number(&one["holds"]).unwrap_or(0.0) == 0.0);
        if let Some(one) = refused { return Err(one["else"].as_str().unwrap_or_default().into()); }
        for step in list(&self.plan["steps"]) {
            let Some(kernel) = step["kernel"].as_str() else {
                let [address, byte, bytes] = ["memset", "byte", "bytes"].map(|part| number(&step[part]).unwrap_or(0.0) as u64);
                unsafe { result::memset_d8_async(address, byte as u8, bytes as usize, stream.cu_stream()) }?;
                continue;
            };
            let function = self.module.load_function(kernel)?;
            let [x, y, z, i, j, k, shared] = [0, 1, 2, 3, 4, 5, 6].map(|at| number(&step["extents"][at]).unwrap_or(0.0) as u32);
            function.set_attribute(sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared as i32)?;
            let bits = list(&step["arguments"]).iter().map(|argument| Ok(match argument[0].as_str() {
                Some("f32") => u64::from((value(&argument[1], names, false)? as f32).to_bits()),
                Some("f64") => value(&argument[1], names, false)?.to_bits(),
                _ => number(&argument[1])? as i64 as u64, // The driver reads the low half for an i32.
            })).collect::<Result<Vec<_>>>()?;
            let mut launch = stream.launch_builder(&function);
            bits.iter().for_each(|bits| { launch.arg(bits); });
            let config = LaunchConfig { grid_dim: (x, y, z), block_dim: (i, j, k), shared_mem_bytes: shared };
            unsafe { if step["cooperative"] == true { launch.launch_cooperative(config) } else { launch.launch(config) } }?;
        }
        Ok(())
    }
}
