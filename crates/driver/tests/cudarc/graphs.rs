//! Tests of graphs: captured from streams and built from nodes, launched, changed, and misused.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use cudarc::driver::CudaContext;
use cudarc::driver::sys::{
    self, CUDA_HOST_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS,
    CUevent, CUfunction, CUgraph, CUgraphExec, CUgraphNode, CUmemorytype, CUresult, CUstream,
    CUstreamCaptureMode,
};

use crate::PTX;
use crate::child::in_child;

const SUCCESS: CUresult = CUresult::CUDA_SUCCESS;
const RELAXED: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
const GLOBAL: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
const COUNT: usize = 1000;

/// Calls a function and expects success.
macro_rules! ok {
    ($call:expr) => {
        // SAFETY: the test passes what the function documents.
        assert_eq!(unsafe { $call }, SUCCESS)
    };
}

/// Calls a function and expects an error.
macro_rules! refused {
    ($call:expr, $code:ident) => {
        // SAFETY: the test passes what the function documents, or a handle that is no longer valid.
        assert_eq!(unsafe { $call }, CUresult::$code)
    };
}

mod capture;

fn stream(flags: u32) -> CUstream {
    let mut stream = null_mut();
    ok!(sys::cuStreamCreate(&raw mut stream, flags));
    stream
}

fn event() -> CUevent {
    let mut event = null_mut();
    ok!(sys::cuEventCreate(&raw mut event, 0));
    event
}

fn buffer() -> u64 {
    let mut address = 0;
    ok!(sys::cuMemAlloc_v2(&raw mut address, COUNT * 4));
    address
}

fn kernel() -> CUfunction {
    let text = std::ffi::CString::new(PTX).expect("PTX holds no NUL");
    let (mut module, mut function) = (null_mut(), null_mut());
    ok!(sys::cuModuleLoadData(&raw mut module, text.as_ptr().cast()));
    ok!(sys::cuModuleGetFunction(
        &raw mut function,
        module,
        c"axpy".as_ptr()
    ));
    function
}

/// The parameters of `axpy`, with the addresses that a launch needs.
struct Axpy {
    x: u64,
    y: u64,
    a: f32,
    n: u32,
}

impl Axpy {
    fn pointers(&mut self) -> [*mut c_void; 4] {
        [
            (&raw mut self.x).cast(),
            (&raw mut self.y).cast(),
            (&raw mut self.a).cast(),
            (&raw mut self.n).cast(),
        ]
    }

    fn node(
        &mut self,
        function: CUfunction,
        pointers: &mut [*mut c_void; 4],
    ) -> CUDA_KERNEL_NODE_PARAMS {
        *pointers = self.pointers();
        // SAFETY: a structure of numbers and pointers.
        let mut node: CUDA_KERNEL_NODE_PARAMS = unsafe { std::mem::zeroed() };
        node.func = function;
        (node.gridDimX, node.gridDimY, node.gridDimZ) = (8, 1, 1);
        (node.blockDimX, node.blockDimY, node.blockDimZ) = (128, 1, 1);
        node.kernelParams = pointers.as_mut_ptr();
        node
    }

    fn launch(&mut self, function: CUfunction, stream: CUstream) {
        let mut pointers = self.pointers();
        ok!(sys::cuLaunchKernel(
            function,
            8,
            1,
            1,
            128,
            1,
            1,
            0,
            stream,
            pointers.as_mut_ptr(),
            null_mut()
        ));
    }
}

/// The first value of a buffer.
fn first(address: u64) -> f32 {
    let mut value = 0.0_f32;
    ok!(sys::cuMemcpyDtoH_v2((&raw mut value).cast(), address, 4));
    value
}

extern "C" fn count(counter: *mut c_void) {
    // SAFETY: the tests pass the address of a number that outlives the graph.
    unsafe { *counter.cast::<u32>() += 1 };
}

fn instantiate(graph: CUgraph) -> CUgraphExec {
    let mut executable = null_mut();
    ok!(sys::cuGraphInstantiateWithFlags(
        &raw mut executable,
        graph,
        0
    ));
    executable
}

/// A fork, a join, and one node of each kind: nothing is executed until the launch, and everything again at each
/// launch.
#[test]
fn a_captured_fork_and_join_runs_at_each_launch() {
    in_child(
        "graphs::a_captured_fork_and_join_runs_at_each_launch",
        &[],
        || {
            let _context = CudaContext::new(0).expect("a context");
            let (function, x, y) = (kernel(), buffer(), buffer());
            let (one, two, forked, joined) = (stream(1), stream(1), event(), event());
            let ones = vec![1.0_f32; COUNT];
            let mut back = vec![0.0_f32; COUNT];
            let mut calls = 0_u32;
            ok!(sys::cuMemsetD32_v2(y, 3.0_f32.to_bits(), COUNT));

            ok!(sys::cuStreamBeginCapture_v2(one, GLOBAL));
            ok!(sys::cuMemcpyHtoDAsync_v2(
                x,
                ones.as_ptr().cast(),
                COUNT * 4,
                one
            ));
            ok!(sys::cuEventRecord(forked, one));
            ok!(sys::cuStreamWaitEvent(two, forked, 0));
            ok!(sys::cuMemsetD32Async(y, 5.0_f32.to_bits(), COUNT, two));
            ok!(sys::cuEventRecord(joined, two));
            ok!(sys::cuStreamWaitEvent(one, joined, 0));
            Axpy {
                x,
                y,
                a: 2.0,
                n: COUNT as u32,
            }
            .launch(function, one);
            ok!(sys::cuLaunchHostFunc(
                one,
                Some(count),
                (&raw mut calls).cast()
            ));
            ok!(sys::cuMemcpyDtoHAsync_v2(
                back.as_mut_ptr().cast(),
                y,
                COUNT * 4,
                one
            ));
            let (mut graph, mut nodes) = (null_mut(), 0);
            ok!(sys::cuStreamEndCapture(one, &raw mut graph));
            ok!(sys::cuGraphGetNodes(graph, null_mut(), &raw mut nodes));
            assert_eq!(nodes, 5);
            let (mut from, mut to, mut edges) = ([null_mut(); 8], [null_mut(); 8], 8);
            ok!(sys::cuGraphGetEdges_v2(
                graph,
                from.as_mut_ptr(),
                to.as_mut_ptr(),
                null_mut(),
                &raw mut edges
            ));
            // The copy comes before the fill, and both before the kernel, which comes before the host call and the
            // copy back.
            assert_eq!(edges, 5);
            assert!(to[5..].iter().all(|node| node.is_null()));

            assert_eq!(
                (first(y), calls, back[0]),
                (3.0, 0, 0.0),
                "nothing was done yet"
            );
            let executable = instantiate(graph);
            // An executable outlives the graph that it was made from.
            ok!(sys::cuGraphDestroy(graph));
            for launch in 1..=2 {
                back.fill(0.0);
                ok!(sys::cuGraphLaunch(executable, two));
                ok!(sys::cuStreamSynchronize(two));
                assert!(back.iter().all(|value| *value == 7.0), "2 * 1 + 5");
                assert_eq!(calls, launch);
            }
            ok!(sys::cuGraphExecDestroy(executable));
            refused!(
                sys::cuGraphLaunch(executable, two),
                CUDA_ERROR_INVALID_VALUE
            );
        },
    );
}

/// The same topology built from nodes; then with other parameters, other buffers, and a disabled node.
#[test]
fn a_graph_built_from_nodes_can_be_changed() {
    in_child(
        "graphs::a_graph_built_from_nodes_can_be_changed",
        &[],
        || {
            let _context = CudaContext::new(0).expect("a context");
            let (function, x, y) = (kernel(), buffer(), buffer());
            let (mut graph, mut copy, mut fill, mut run): (
                CUgraph,
                CUgraphNode,
                CUgraphNode,
                CUgraphNode,
            ) = (null_mut(), null_mut(), null_mut(), null_mut());
            let ones = vec![1.0_f32; COUNT];
            let plan = CUDA_MEMCPY3D {
                srcXInBytes: 0,
                srcY: 0,
                srcZ: 0,
                srcLOD: 0,
                srcMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
                srcHost: ones.as_ptr().cast(),
                srcDevice: 0,
                srcArray: null_mut(),
                reserved0: null_mut(),
                srcPitch: 0,
                srcHeight: 0,
                dstXInBytes: 0,
                dstY: 0,
                dstZ: 0,
                dstLOD: 0,
                dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
                dstHost: null_mut(),
                dstDevice: x,
                dstArray: null_mut(),
                reserved1: null_mut(),
                dstPitch: 0,
                dstHeight: 0,
                WidthInBytes: COUNT * 4,
                Height: 1,
                Depth: 1,
            };
            let mut filling = CUDA_MEMSET_NODE_PARAMS {
                dst: y,
                pitch: 0,
                value: 5.0_f32.to_bits(),
                elementSize: 4,
                width: COUNT,
                height: 1,
            };
            let mut axpy = Axpy {
                x,
                y,
                a: 2.0,
                n: COUNT as u32,
            };
            let mut pointers = [null_mut(); 4];
            let mut launch = axpy.node(function, &mut pointers);
            ok!(sys::cuGraphCreate(&raw mut graph, 0));
            ok!(sys::cuGraphAddMemcpyNode(
                &raw mut copy,
                graph,
                null(),
                0,
                &raw const plan,
                null_mut()
            ));
            ok!(sys::cuGraphAddMemsetNode(
                &raw mut fill,
                graph,
                null(),
                0,
                &raw const filling,
                null_mut()
            ));
            ok!(sys::cuGraphAddKernelNode_v2(
                &raw mut run,
                graph,
                &raw const copy,
                1,
                &raw const launch
            ));
            ok!(sys::cuGraphAddDependencies_v2(
                graph,
                &raw const fill,
                &raw const run,
                null(),
                1
            ));
            refused!(
                sys::cuGraphAddDependencies_v2(graph, &raw const fill, &raw const run, null(), 1),
                CUDA_ERROR_INVALID_VALUE
            );
            let mut needs = 0;
            ok!(sys::cuGraphNodeGetDependencies_v2(
                run,
                null_mut(),
                null_mut(),
                &raw mut needs
            ));
            assert_eq!(needs, 2);
            // SAFETY: a structure of numbers and pointers.
            let mut told: CUDA_KERNEL_NODE_PARAMS = unsafe { std::mem::zeroed() };
            ok!(sys::cuGraphKernelNodeGetParams_v2(run, &raw mut told));
            // SAFETY: the third parameter is a float, and the driver keeps it until it changes.
            assert_eq!(unsafe { *(*told.kernelParams.add(2)).cast::<f32>() }, 2.0);
            assert_eq!((told.func, told.blockDimX), (function, 128));

            let executable = instantiate(graph);
            let go = || {
                ok!(sys::cuGraphLaunch(executable, null_mut()));
                first(y)
            };
            assert_eq!(go(), 7.0);
            axpy.a = 10.0;
            launch = axpy.node(function, &mut pointers);
            ok!(sys::cuGraphExecKernelNodeSetParams_v2(
                executable,
                run,
                &raw const launch
            ));
            assert_eq!(go(), 15.0, "the executable has the new factor");
            ok!(sys::cuGraphNodeSetEnabled(executable, run, 0));
            assert_eq!(go(), 5.0, "only the fill is left");
            ok!(sys::cuGraphNodeSetEnabled(executable, run, 1));
            filling.value = 6.0_f32.to_bits();
            ok!(sys::cuGraphExecMemsetNodeSetParams(
                executable,
                fill,
                &raw const filling,
                null_mut()
            ));
            assert_eq!(go(), 16.0);

            // The graph itself still has the parameters 2 and 5.
            let mut result = sys::CUgraphExecUpdateResultInfo_v1 {
                result: sys::CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR,
                errorNode: null_mut(),
                errorFromNode: null_mut(),
            };
            ok!(sys::cuGraphExecUpdate_v2(
                executable,
                graph,
                &raw mut result
            ));
            assert_eq!(go(), 7.0);
            // The nodes' handles remain valid after an update.
            ok!(sys::cuGraphExecKernelNodeSetParams_v2(
                executable,
                run,
                &raw const launch
            ));
            assert_eq!(go(), 15.0);

            let mut extra = null_mut();
            ok!(sys::cuGraphAddEmptyNode(
                &raw mut extra,
                graph,
                &raw const run,
                1
            ));
            refused!(
                sys::cuGraphExecUpdate_v2(executable, graph, &raw mut result),
                CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE
            );
            let topology =
                sys::CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
            assert_eq!(result.result, topology);
            assert_eq!(go(), 15.0, "a failed update changes nothing");

            // A cycle has no topological order.
            ok!(sys::cuGraphAddDependencies_v2(
                graph,
                &raw const extra,
                &raw const copy,
                null(),
                1
            ));
            let mut circle = null_mut();
            refused!(
                sys::cuGraphInstantiateWithFlags(&raw mut circle, graph, 0),
                CUDA_ERROR_INVALID_VALUE
            );
            ok!(sys::cuGraphDestroyNode(extra));
            ok!(sys::cuGraphExecDestroy(executable));
            ok!(sys::cuGraphDestroy(graph));
            refused!(sys::cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
            refused!(sys::cuGraphDestroyNode(run), CUDA_ERROR_INVALID_VALUE);
        },
    );
}

/// A graph inside a graph, a copy of it, and its drawing.
#[test]
fn a_graph_can_be_a_node_and_be_drawn() {
    in_child("graphs::a_graph_can_be_a_node_and_be_drawn", &[], || {
        let _context = CudaContext::new(0).expect("a context");
        let (function, x, y) = (kernel(), buffer(), buffer());
        ok!(sys::cuMemsetD32_v2(x, 1.0_f32.to_bits(), COUNT));
        ok!(sys::cuMemsetD32_v2(y, 0, COUNT));
        let mut calls = 0_u32;
        let (mut inner, mut outer, mut clone) = (null_mut(), null_mut(), null_mut());
        let (mut run, mut child, mut after, mut found) =
            (null_mut(), null_mut(), null_mut(), null_mut());
        let (mut axpy, mut pointers) = (
            Axpy {
                x,
                y,
                a: 1.0,
                n: COUNT as u32,
            },
            [null_mut(); 4],
        );
        let launch = axpy.node(function, &mut pointers);
        ok!(sys::cuGraphCreate(&raw mut inner, 0));
        ok!(sys::cuGraphCreate(&raw mut outer, 0));
        ok!(sys::cuGraphAddKernelNode_v2(
            &raw mut run,
            inner,
            null(),
            0,
            &raw const launch
        ));
        ok!(sys::cuGraphAddChildGraphNode(
            &raw mut child,
            outer,
            null(),
            0,
            inner
        ));
        let call = CUDA_HOST_NODE_PARAMS {
            fn_: Some(count),
            userData: (&raw mut calls).cast(),
        };
        ok!(sys::cuGraphAddHostNode(
            &raw mut after,
            outer,
            &raw const child,
            1,
            &raw const call
        ));
        // The node has its own copy of the graph.
        ok!(sys::cuGraphDestroy(inner));
        ok!(sys::cuGraphClone(&raw mut clone, outer));
        ok!(sys::cuGraphNodeFindInClone(&raw mut found, after, clone));
        assert_ne!(found, after);
        let mut owned = null_mut();
        ok!(sys::cuGraphChildGraphNodeGetGraph(child, &raw mut owned));
        refused!(sys::cuGraphDestroy(owned), CUDA_ERROR_INVALID_VALUE);
        ok!(sys::cuGraphDestroy(outer));

        let executable = instantiate(clone);
        ok!(sys::cuGraphLaunch(executable, null_mut()));
        ok!(sys::cuGraphLaunch(executable, null_mut()));
        assert_eq!((first(y), calls), (2.0, 2));

        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("graph.dot");
        let text = std::ffi::CString::new(path.to_str().expect("UTF-8")).expect("no NUL");
        ok!(sys::cuGraphDebugDotPrint(clone, text.as_ptr(), 0));
        let drawing = std::fs::read_to_string(&path).expect("it was written");
        assert!(drawing.starts_with("digraph {"), "{drawing}");
        assert_eq!(drawing.matches(" -> ").count(), 1, "{drawing}");
        assert!(drawing.contains("host call"), "{drawing}");
    });
}

/// A user object exists as long as a graph or an executable refers to it.
#[test]
fn a_user_object_is_destroyed_with_its_last_reference() {
    in_child(
        "graphs::a_user_object_is_destroyed_with_its_last_reference",
        &[],
        || {
            let _context = CudaContext::new(0).expect("a context");
            let mut gone = 0_u32;
            let (mut object, mut graph) = (null_mut(), null_mut());
            ok!(sys::cuUserObjectCreate(
                &raw mut object,
                (&raw mut gone).cast(),
                Some(count),
                2,
                1
            ));
            ok!(sys::cuGraphCreate(&raw mut graph, 0));
            // One reference moves to the graph, one remains the caller's.
            ok!(sys::cuGraphRetainUserObject(graph, object, 1, 1));
            let executable = instantiate(graph);
            ok!(sys::cuUserObjectRelease(object, 1));
            refused!(
                sys::cuUserObjectRelease(object, 1),
                CUDA_ERROR_INVALID_VALUE
            );
            ok!(sys::cuGraphDestroy(graph));
            assert_eq!(gone, 0, "the executable has one");
            ok!(sys::cuGraphExecDestroy(executable));
            assert_eq!(gone, 1);
            refused!(sys::cuUserObjectRetain(object, 1), CUDA_ERROR_INVALID_VALUE);
        },
    );
}

/// Branches that do not depend on each other overlap in modelled time.
#[test]
fn branches_of_a_graph_overlap() {
    in_child("graphs::branches_of_a_graph_overlap", &[], || {
        let _context = CudaContext::new(0).expect("a context");
        let on = stream(1);
        let time = |chained: bool| {
            let (mut graph, mut last): (CUgraph, CUgraphNode) = (null_mut(), null_mut());
            ok!(sys::cuGraphCreate(&raw mut graph, 0));
            for index in 0..4 {
                let fill = CUDA_MEMSET_NODE_PARAMS {
                    dst: buffer(),
                    pitch: 0,
                    value: 0,
                    elementSize: 4,
                    width: COUNT,
                    height: 1,
                };
                let before = last;
                let needs = usize::from(chained && index > 0);
                ok!(sys::cuGraphAddMemsetNode(
                    &raw mut last,
                    graph,
                    &raw const before,
                    needs,
                    &raw const fill,
                    null_mut()
                ));
            }
            let executable = instantiate(graph);
            let (start, end, mut milliseconds) = (event(), event(), 0.0);
            ok!(sys::cuEventRecord(start, on));
            ok!(sys::cuGraphLaunch(executable, on));
            ok!(sys::cuEventRecord(end, on));
            ok!(sys::cuStreamSynchronize(on));
            ok!(sys::cuEventElapsedTime_v2(
                &raw mut milliseconds,
                start,
                end
            ));
            milliseconds
        };
        let (chain, branches) = (time(true), time(false));
        let ratio = chain / branches;
        assert!(
            (3.99..4.01).contains(&ratio),
            "{chain} ms against {branches} ms"
        );
    });
}
