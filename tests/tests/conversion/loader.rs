//! The exported loader for Rust, in a process that finds the emulated device's driver.

#[path = "../../../crates/convert/loaders/load.rs"]
#[rustfmt::skip]
#[expect(
    clippy::undocumented_unsafe_blocks,
    reason = "a file for other projects, which have rules of their own"
)]
mod load;

use std::fs;
use std::path::Path;

use cudarc::driver::{CudaContext, DevicePtr};

use self::load::{Kernel, Names};

/// The variable with lines of a plan and the folder of a vector.
pub const VECTORS: &str = "EXPORT_VECTORS";

#[test]
#[ignore = "another test starts it in a process with the emulated device's driver"]
fn the_rust_loader_launches_what_is_listed() {
    let list = std::env::var(VECTORS).expect("the other test lists vectors");
    let context = CudaContext::new(0).expect("there is a device");
    for line in list.lines() {
        let (plan, folder) = line.split_once('\t').expect("two paths");
        let kernel = Kernel::load(Path::new(plan), &context).expect("the plan loads");
        let refused = launch(&kernel, &context, Path::new(folder), -1.0);
        let message = refused.expect_err("a dim of -1 is refused").to_string();
        assert!(message.contains("nothing else was executed"), "{message}");
        launch(&kernel, &context, Path::new(folder), 0.0).expect("the kernel launches");
    }
}

/// Launches on the inputs of a folder and writes the output there. A negative number replaces the dims.
fn launch(
    kernel: &Kernel,
    context: &std::sync::Arc<CudaContext>,
    folder: &Path,
    replaced: f64,
) -> Result<(), Box<dyn std::error::Error>> {
    let stream = context.default_stream();
    let mut names = Names::new();
    for line in fs::read_to_string(folder.join("dims.txt"))?.lines() {
        let (name, value) = line.split_once(' ').ok_or("a dim")?;
        let value = if replaced < 0.0 {
            replaced
        } else {
            value.parse()?
        };
        names.insert(name.to_owned(), value);
    }
    let mut buffers = Vec::new();
    let tensors = fs::read_to_string(folder.join("tensors.txt"))?;
    for line in tensors.lines() {
        let [name, direction, bytes] = *line.split(' ').collect::<Vec<_>>() else {
            return Err("a tensor".into());
        };
        let memory = match direction {
            "in" => stream.clone_htod(&fs::read(folder.join(name))?)?,
            _ => stream.alloc_zeros::<u8>(bytes.parse()?)?,
        };
        buffers.push((name, direction, memory));
    }
    let workspace = kernel.workspace_bytes(&names)?.max(1);
    let workspace = stream.alloc_zeros::<u8>(if replaced < 0.0 { 1 } else { workspace })?;
    let address = |name: &str, memory| {
        let (address, _) = DevicePtr::<u8>::device_ptr(memory, &stream);
        #[expect(
            clippy::cast_precision_loss,
            reason = "addresses have fewer than 53 bits"
        )]
        (format!("&{name}"), address as f64)
    };
    names.extend(
        buffers
            .iter()
            .map(|(name, _, memory)| address(name, memory)),
    );
    names.extend([address("", &workspace)]);
    // SAFETY: the buffers have the sizes of the tensors and of the workspace.
    unsafe { kernel.launch(&stream, &names) }?;
    for (name, direction, memory) in &buffers {
        if *direction == "out" {
            fs::write(folder.join(name), stream.clone_dtoh(memory)?)?;
        }
    }
    Ok(())
}
