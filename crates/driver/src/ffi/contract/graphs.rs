//! The rows of graphs, their executables and stream capture.

use crate::code::Code;

use super::entry::Argument::{
    AnyNode, AnyNodeParams, Captured, CopyParams, Event, Executable, FillParams, Graph, GraphCopy,
    Host, HostCallParams, HostFunction, InnerGraph, InstantiateParams, KernelParams, Length, Mode,
    Node, Nodes, Null, Number, OneOf, OptionalContext, OptionalOut, Out, Path, Stream, UserObject,
};
use super::entry::{Argument, FunctionContract, context};

const VALUE: u32 = Code::INVALID_VALUE.0;
const UNSUPPORTED: u32 = Code::NOT_SUPPORTED.0;
const MINUS_ONE: u64 = u32::MAX as u64;

const KERNEL: Argument = Node(0);
const COPY: Argument = Node(1);
const FILL: Argument = Node(2);
const CALL: Argument = Node(3);
const INNER: Argument = Node(4);
const WAIT: Argument = Node(6);
const RECORD: Argument = Node(7);

/// A count for a null array.
const NONE: Argument = OneOf(0, &[(1, VALUE), (u64::MAX, VALUE)]);
/// The dependencies of a new node, and another node that can depend on it.
const NEEDS: Argument = Nodes(5);
const OTHERS: Argument = Nodes(0);
const ONE: Argument = Length(1);
const CAPTURE_MODE: Argument = OneOf(0, &[(3, VALUE), (MINUS_ONE, VALUE)]);
const NO_FLAG: Argument = OneOf(0, &[(1, VALUE), (MINUS_ONE, VALUE)]);
const ATTRIBUTE: Argument = OneOf(2, &[(1, UNSUPPORTED), (99, UNSUPPORTED)]);
const UPDATE: Argument = OneOf(0, &[(2, VALUE), (MINUS_ONE, VALUE)]);
const REFERENCES: Argument = OneOf(1, &[(0, VALUE), (MINUS_ONE, VALUE)]);
const OBJECT_FLAGS: Argument = OneOf(1, &[(0, VALUE), (2, VALUE)]);
/// Automatic freeing and node priorities are valid. Uploading is valid for another function only. Device launches are
/// not supported.
const INSTANTIATE_FLAGS: Argument = OneOf(
    9,
    &[
        (2, VALUE),
        (4, UNSUPPORTED),
        (5, VALUE),
        (16, VALUE),
        (u64::MAX, VALUE),
    ],
);

/// All functions of graphs.
pub const ENTRIES: &[FunctionContract] = &[
    context("cuGraphCreate", &[Out, NO_FLAG]),
    context("cuGraphDestroy", &[Graph]),
    context("cuGraphClone", &[Out, Graph]),
    context("cuGraphNodeFindInClone", &[Out, AnyNode, GraphCopy]),
    context("cuGraphNodeGetType", &[AnyNode, Out]),
    context("cuGraphNodeGetContainingGraph", &[AnyNode, Out]),
    context("cuGraphGetNodes", &[Graph, Null, Out]),
    context("cuGraphGetRootNodes", &[Graph, Null, Out]),
    context("cuGraphGetEdges", &[Graph, Null, Null, Out]),
    context("cuGraphGetEdges_v2", &[Graph, Null, Null, Null, Out]),
    context("cuGraphNodeGetDependencies", &[AnyNode, Null, Out]),
    context("cuGraphNodeGetDependencies_v2", &[AnyNode, Null, Null, Out]),
    context("cuGraphNodeGetDependentNodes", &[AnyNode, Null, Out]),
    context(
        "cuGraphNodeGetDependentNodes_v2",
        &[AnyNode, Null, Null, Out],
    ),
    context("cuGraphAddDependencies", &[Graph, NEEDS, OTHERS, ONE]),
    context(
        "cuGraphAddDependencies_v2",
        &[Graph, NEEDS, OTHERS, Null, ONE],
    ),
    context("cuGraphRemoveDependencies", &[Graph, NEEDS, OTHERS, ONE]).returns(VALUE),
    context(
        "cuGraphRemoveDependencies_v2",
        &[Graph, NEEDS, OTHERS, Null, ONE],
    )
    .returns(VALUE),
    context("cuGraphDestroyNode", &[AnyNode]),
    context("cuGraphDebugDotPrint", &[Graph, Path, Number(0)]),
    // Nodes by kind.
    context("cuGraphAddEmptyNode", &[Out, Graph, NEEDS, ONE]),
    context(
        "cuGraphAddKernelNode",
        &[Out, Graph, NEEDS, ONE, KernelParams],
    ),
    context(
        "cuGraphAddKernelNode_v2",
        &[Out, Graph, NEEDS, ONE, KernelParams],
    ),
    context(
        "cuGraphAddMemcpyNode",
        &[Out, Graph, NEEDS, ONE, CopyParams, OptionalContext],
    ),
    context(
        "cuGraphAddMemsetNode",
        &[Out, Graph, NEEDS, ONE, FillParams, OptionalContext],
    ),
    context(
        "cuGraphAddHostNode",
        &[Out, Graph, NEEDS, ONE, HostCallParams],
    ),
    context("cuGraphAddChildGraphNode", &[Out, Graph, NEEDS, ONE, Graph]),
    context(
        "cuGraphAddEventRecordNode",
        &[Out, Graph, NEEDS, ONE, Event],
    ),
    context("cuGraphAddEventWaitNode", &[Out, Graph, NEEDS, ONE, Event]),
    context("cuGraphAddNode", &[Out, Graph, NEEDS, ONE, AnyNodeParams]),
    context(
        "cuGraphAddNode_v2",
        &[Out, Graph, NEEDS, Null, ONE, AnyNodeParams],
    ),
    context("cuGraphNodeSetParams", &[CALL, AnyNodeParams]),
    context("cuGraphKernelNodeGetParams", &[KERNEL, Out]),
    context("cuGraphKernelNodeGetParams_v2", &[KERNEL, Out]),
    context("cuGraphKernelNodeSetParams", &[KERNEL, KernelParams]),
    context("cuGraphKernelNodeSetParams_v2", &[KERNEL, KernelParams]),
    context("cuGraphKernelNodeGetAttribute", &[KERNEL, ATTRIBUTE, Out]),
    context("cuGraphKernelNodeSetAttribute", &[KERNEL, ATTRIBUTE, Host]),
    context("cuGraphKernelNodeCopyAttributes", &[KERNEL, KERNEL]),
    context("cuGraphMemcpyNodeGetParams", &[COPY, Out]),
    context("cuGraphMemcpyNodeSetParams", &[COPY, CopyParams]),
    context("cuGraphMemsetNodeGetParams", &[FILL, Out]),
    context("cuGraphMemsetNodeSetParams", &[FILL, FillParams]),
    context("cuGraphHostNodeGetParams", &[CALL, Out]),
    context("cuGraphHostNodeSetParams", &[CALL, HostCallParams]),
    context("cuGraphChildGraphNodeGetGraph", &[INNER, Out]),
    context("cuGraphEventRecordNodeGetEvent", &[RECORD, Out]),
    context("cuGraphEventRecordNodeSetEvent", &[RECORD, Event]),
    context("cuGraphEventWaitNodeGetEvent", &[WAIT, Out]),
    context("cuGraphEventWaitNodeSetEvent", &[WAIT, Event]),
    // Executables.
    context(
        "cuGraphInstantiateWithFlags",
        &[Out, Graph, INSTANTIATE_FLAGS],
    ),
    context(
        "cuGraphInstantiate_v2",
        &[Out, Graph, OptionalOut, Null, Number(0)],
    ),
    context(
        "cuGraphInstantiateWithParams",
        &[Out, Graph, InstantiateParams],
    ),
    context("cuGraphExecGetFlags", &[Executable, Out]),
    context("cuGraphExecDestroy", &[Executable]),
    context("cuGraphUpload", &[Executable, Stream]),
    context("cuGraphLaunch", &[Executable, Stream]),
    context(
        "cuGraphExecNodeSetParams",
        &[Executable, CALL, AnyNodeParams],
    ),
    context(
        "cuGraphExecKernelNodeSetParams",
        &[Executable, KERNEL, KernelParams],
    ),
    context(
        "cuGraphExecKernelNodeSetParams_v2",
        &[Executable, KERNEL, KernelParams],
    ),
    context(
        "cuGraphExecMemcpyNodeSetParams",
        &[Executable, COPY, CopyParams, OptionalContext],
    ),
    context(
        "cuGraphExecMemsetNodeSetParams",
        &[Executable, FILL, FillParams, OptionalContext],
    ),
    context(
        "cuGraphExecHostNodeSetParams",
        &[Executable, CALL, HostCallParams],
    ),
    context(
        "cuGraphExecChildGraphNodeSetParams",
        &[Executable, INNER, InnerGraph],
    ),
    context(
        "cuGraphExecEventRecordNodeSetEvent",
        &[Executable, RECORD, Event],
    ),
    context(
        "cuGraphExecEventWaitNodeSetEvent",
        &[Executable, WAIT, Event],
    ),
    context("cuGraphNodeSetEnabled", &[Executable, KERNEL, Number(0)]),
    context("cuGraphNodeGetEnabled", &[Executable, KERNEL, Out]),
    context("cuGraphExecUpdate", &[Executable, Graph, OptionalOut, Out]),
    context("cuGraphExecUpdate_v2", &[Executable, Graph, Out]),
    // User objects.
    context(
        "cuUserObjectCreate",
        &[Out, Number(0), HostFunction, REFERENCES, OBJECT_FLAGS],
    ),
    context("cuUserObjectRetain", &[UserObject, REFERENCES]),
    context(
        "cuUserObjectRelease",
        &[UserObject, OneOf(1, &[(0, VALUE), (2, VALUE)])],
    ),
    context(
        "cuGraphRetainUserObject",
        &[Graph, UserObject, REFERENCES, UPDATE],
    ),
    // The graph holds no references to the caller's object.
    context("cuGraphReleaseUserObject", &[Graph, UserObject, REFERENCES]).returns(VALUE),
    // Stream capture.
    context("cuStreamBeginCapture_v2", &[Stream, CAPTURE_MODE]),
    context(
        "cuStreamBeginCaptureToGraph",
        &[Stream, Graph, NEEDS, Null, ONE, CAPTURE_MODE],
    ),
    context("cuStreamEndCapture", &[Captured, Out]),
    context("cuStreamIsCapturing", &[Stream, Out]),
    context(
        "cuStreamGetCaptureInfo_v2",
        &[
            Stream,
            Out,
            OptionalOut,
            OptionalOut,
            OptionalOut,
            OptionalOut,
        ],
    ),
    context(
        "cuStreamGetCaptureInfo_v3",
        &[
            Stream,
            Out,
            OptionalOut,
            OptionalOut,
            OptionalOut,
            OptionalOut,
            OptionalOut,
        ],
    ),
    context(
        "cuStreamUpdateCaptureDependencies",
        &[Captured, Null, NONE, UPDATE],
    ),
    context(
        "cuStreamUpdateCaptureDependencies_v2",
        &[Captured, Null, Null, NONE, UPDATE],
    ),
    context("cuThreadExchangeStreamCaptureMode", &[Mode]),
];
