//! Modules, libraries and images.

use kernelwright_driver::code::Code;
use kernelwright_driver::image::Image;

use super::{PTX, load, ready};

#[test]
fn a_librarys_module_is_unloaded_only_with_the_library() {
    let mut driver = ready();
    let library = driver
        .load_library(Image::Ptx(PTX.as_bytes()), None)
        .expect("the library loads");
    let module = driver.library_module(library).expect("it has a module");
    assert_eq!(driver.unload_module(module), Err(Code::NOT_PERMITTED));
    assert_eq!(driver.library_module(library), Ok(module));
    driver.unload_library(library).expect("unloads");
    assert_eq!(driver.unload_module(module), Err(Code::INVALID_HANDLE));
}

#[test]
fn images_without_ptx_for_this_device_are_refused_with_a_reason() {
    let mut driver = ready();
    let refusal = driver
        .load_module(Image::MachineCode, None)
        .expect_err("no PTX");
    assert_eq!(refusal.code, Code::NO_BINARY_FOR_GPU);
    let refusal = driver
        .load_module(Image::Ptx(b"this is no PTX at all"), None)
        .expect_err("no PTX");
    assert_eq!(refusal.code, Code::INVALID_PTX);
    assert!(refusal.message.contains("1:"), "{}", refusal.message);
}

#[test]
fn the_sizes_of_parameters_come_from_the_parsed_text_and_not_from_comments() {
    let mut driver = ready();
    let text = |body: &str| format!(".version 8.0\n.target sm_80\n.address_size 64\n{body}\n");
    let posing = text(
        ".visible .entry k(.param .u64 a, .param .align 1 .b8 b[4000]) {\n// .entry k(.param .u64 a, .param .u32 b) {\nret;\n}",
    );
    let module = driver
        .load_module(Image::Ptx(posing.as_bytes()), None)
        .expect("loads");
    let kernel = driver.function(module, "k").expect("one kernel");
    let slots = driver.parameters(kernel).expect("its parameters");
    let sizes: Vec<usize> = slots.iter().map(|slot| slot.bytes).collect();
    assert_eq!(sizes, [8, 4000]);
    for refused in [
        text(
            ".visible .entry k(.param .u64 a) { ret; }\n.visible .entry k(.param .u32 a) { ret; }",
        ),
        text(".visible .entry k(.param .align 1 .b8 a[32765]) { ret; }"),
    ] {
        let refusal = driver
            .load_module(Image::Ptx(refused.as_bytes()), None)
            .expect_err(&refused);
        assert_eq!(refusal.code, Code::INVALID_PTX, "{}", refusal.message);
        assert!(refusal.message.contains('k'), "{}", refusal.message);
    }
}

#[test]
fn variables_have_addresses_and_their_initial_value() {
    let mut driver = ready();
    let module = load(&mut driver);
    let (address, bytes) = driver.variable(module, "counter").expect("the variable");
    assert_eq!(bytes, 4);
    let mut value = [0; 4];
    driver
        .download(address, &mut value, None)
        .expect("downloads");
    assert_eq!(u32::from_le_bytes(value), 7);
    assert_eq!(driver.variable(module, "nothing"), Err(Code::NOT_FOUND));
}
