#!/usr/bin/env python3
"""
libraries.py - calls of NCCL, cuBLAS and the other libraries of CUDA, with stand-ins:
libraries.py --build BUILD-FOLDER [WORD...]. Prints TAP.
"""

from harness import (  # noqa: E402
    Report,
    main,
    same,
    test,
)


@test
def nccl():
    """NCCL's calls have their payloads and their kernels, whatever groups made of them."""
    r = Report(options=("-t", "cuda,nvtx", "-s", "none"), app="nccl-app")
    rows = r.all(
        "SELECT l.value, bytes, correlationId, groupSize, groupRank, sourceRank, destinationRank,"
        " sequenceNumber, t.value, d.value, g.value FROM WARPSIGHT_COLLECTIVE LEFT JOIN StringIds"
        " l ON l.id = labelId LEFT JOIN StringIds t ON t.id = dtypeId LEFT JOIN StringIds d ON"
        " d.id = reductionId LEFT JOIN StringIds g ON g.id = groupNameId ORDER BY start, bytes"
    )
    world, pair, alone = ("0x00000000feed000%d" % i for i in (1, 2, 3))
    bf16 = "BFloat16"
    want = [
        ("AllReduce 4 KiB", 4096, 1, 4, 2, -1, -1, 0, bf16, "Avg", world),
        ("AllReduce 1 MiB", 1 << 20, 2, 4, 2, -1, -1, 1, bf16, "Sum", world),
        ("AllReduce 1000 B", 1000, 3, 4, 2, -1, -1, 2, bf16, "Max", world),
        ("AllReduce 1.95 KiB", 2000, 3, 4, 2, -1, -1, 3, bf16, "Max", world),
        ("AllReduce 2.93 KiB", 3000, 3, 4, 2, -1, -1, 4, bf16, "Max", world),
        ("ReduceScatter 8 KiB", 8192, 4, 2, 1, -1, -1, 1, "Float", "Sum", pair),
        ("ReduceScatter 64 B", 64, 5, 2, 1, -1, -1, 0, "Float", "Sum", pair),
        ("AllGather 256 B", 256, 6, 4, 2, -1, -1, 6, None, None, world),
        ("Broadcast 512 B", 512, 7, 4, 2, 3, -1, 5, None, None, world),
        ("Send 128 B", 128, 8, 2, 1, 1, 0, None, None, None, pair),
        ("Recv 160 B", 160, 8, 2, 1, 0, 1, None, None, None, pair),
        ("Reduce 32 B", 32, 9, 4, 2, -1, 1, 7, "Float", "Min", world),
        ("AllReduce 16 B", 16, None, None, -1, -1, -1, 0, None, "PreMulSum", alone),
        ("AllReduce", None, 10, None, -1, -1, -1, None, bf16, None, None),
        ("AllReduce", None, 10, None, -1, -1, -1, None, bf16, None, None),
    ]
    same("collectives", sorted(rows, key=str), sorted(want, key=str))
    same(
        "times of kernels",
        r.count(
            "WARPSIGHT_COLLECTIVE c JOIN CUPTI_ACTIVITY_KIND_KERNEL k USING (correlationId)",
            "c.start = k.start AND c.end = k.end AND c.deviceId = k.deviceId AND"
            " c.streamId = k.streamId AND (callStart < k.start OR callStart IS NULL)",
        ),
        14,
    )
    # A kernel takes 1500 ns; three all-reduces share one by their sizes.
    got = [
        (x["Operation"], x["Message Bytes"], x["Total Time (ns)"], x["Algorithm Bandwidth (MB/s)"])
        + (x["Bus Bandwidth (MB/s)"], x["Ranks"])
        for x in r.stats("nccl_sum")
    ]
    for row in (
        ("AllGather", "256", "1500", "682.667", "512.000", "4"),
        ("AllReduce", str(1 << 20), "1500", "699050.667", "1048576.000", "4"),
        ("AllReduce", "3000", "750", "4000.000", "6000.000", "4"),
        ("AllReduce", "1000", "250", "4000.000", "6000.000", "4"),
        ("Recv", "160", "1500", "106.667", "106.667", "2"),
        ("Send", "128", "1500", "85.333", "85.333", "2"),
    ):
        assert row in got, "%r in %r" % (row, got)
    same("all", len(got), 13)
    sizes = {(x["Operation"], x["In (MB)"], x["Out (MB)"]) for x in r.stats("collective_sum")}
    assert ("ReduceScatter", "0.016", "0.008") in sizes, sizes


@test
def nccl_trace():
    """NCCL's plug-in says how operations were done and what the proxy did, in all versions."""
    for version in range(1, 6):
        r = Report(
            options=("-t", "cuda,nvtx", "-s", "none", "--nccl-trace=all"),
            app="nccl-app",
            env={"STANDIN_NCCL": str(version)},
        )
        got = dict(r.all("SELECT eventKind, count(*) FROM WARPSIGHT_NCCL_EVENT GROUP BY 1"))
        # 10 collectives, a send and a receive in 7 launches; 2 channels, both ways, 3 steps.
        want = [7, 10, 2, 12 * 4, 12 * 12, 12, 12 * 2, 12 * 12]
        if version < 3:  # without channels and networks
            want[6:] = [0, 0]
        same("v%d: events" % version, [got.get(i, 0) for i in range(8)], want)
        text = "(SELECT value FROM StringIds WHERE id = %s)"
        rows = r.all(
            "SELECT DISTINCT %s, %s, channels, eventId IS NOT NULL FROM WARPSIGHT_COLLECTIVE WHERE"
            " bytes IS NOT NULL AND groupSize IS NOT NULL ORDER BY 1 DESC"
            % (text % "algorithmId", text % "protocolId")
        )
        sends = (None, None, 2 if version >= 4 else None, 1)
        same("v%d: choices" % version, rows, [("RING", "LL128", 2, 1), sends])
        same(
            "v%d: joined" % version,
            r.count(
                "WARPSIGHT_COLLECTIVE c JOIN WARPSIGHT_NCCL_EVENT e USING (globalPid, eventId)",
                "(SELECT value FROM StringIds WHERE id = c.nameId) ="
                " (SELECT value FROM StringIds WHERE id = e.operationNameId)"
                " AND c.bytes / 4 = e.elements AND e.start BETWEEN callStart - 1000000 AND c.start",
            ),
            12,
        )
        # What the proxy did belongs to the operation, and steps to their operation of the proxy.
        same(
            "v%d: work" % version,
            r.all(
                "SELECT direction, count(*), sum(o.bytes), min(o.steps), min(o.chunkBytes),"
                " count(DISTINCT o.operationId), count(DISTINCT o.rowId) FROM"
                " WARPSIGHT_NCCL_EVENT o WHERE eventKind = 3 GROUP BY 1 ORDER BY 1"
            ),
            [(d, 24, 24 * 3 * 4096, 3, 1 << 16, 12, 4) for d in (1, 2)],
        )
        same(
            "v%d: steps" % version,
            r.one(
                "SELECT count(*) FROM WARPSIGHT_NCCL_EVENT s JOIN WARPSIGHT_NCCL_EVENT o ON"
                " o.eventId = s.parentId AND o.eventKind = 3 AND o.channelId = s.channelId AND"
                " o.direction = s.direction AND o.rowId = s.rowId AND o.start <= s.start AND"
                " s.end <= o.end AND s.networkTime + s.gpuWait + s.flushTime > 0 AND"
                " ifnull(s.bytes, 4096) = 4096 WHERE s.eventKind = 4"
            ),
            144,
        )
        group = "0x00000000feed0001"
        row = "NCCL %s rank 2 channel 01" % group
        if version == 2:  # does not say which communicator it is
            row = "NCCL rank 2 channel 01"
        same(
            "v%d: rows" % version,
            r.count("WARPSIGHT_NCCL_EVENT e JOIN StringIds s ON s.id = rowId", "value = '%s'" % row)
            > 0,
            True,
        )
        if version >= 4:
            same(
                "v%d: communicator" % version,
                r.all(
                    "SELECT DISTINCT groupSize, groupRank, nodes, %s FROM WARPSIGHT_NCCL_EVENT"
                    " WHERE eventKind = 1 ORDER BY 1" % (text % "communicatorNameId")
                ),
                [(2, 1, 1, "world"), (4, 2, 1, "world")],
            )
            # A clock of its own; on a busy machine some operations are launched late.
            took = "SELECT DISTINCT gpuEnd - gpuStart FROM WARPSIGHT_NCCL_EVENT WHERE eventKind = 6"
            same("channels", set(r.all(took)) - {(None,)}, {(2000,)})
    early = Report(
        options=("-t", "cuda,nvtx", "-s", "none", "--nccl-trace=channel"),
        app="nccl-app",
        env={"STANDIN_NCCL": "5", "STANDIN_NCCL_EARLY": "1"},
    )
    same(
        "channels before their kernels are not believed",
        early.all(
            "SELECT count(*), count(e.gpuStart), count(e.gpuEnd), sum(e.start >= c.start AND e.end"
            " <= c.end) FROM WARPSIGHT_COLLECTIVE c JOIN WARPSIGHT_NCCL_EVENT e ON e.operationId ="
            " c.eventId WHERE e.eventKind = 6 AND c.correlationId IS NOT NULL"
        ),
        [(24, 2, 2, 24)],
    )
    same("said", early.count("DIAGNOSTIC_EVENT", "text LIKE '%those of an earlier one%'"), 1)
    only = Report(options=("-t", "cuda,nvtx", "-s", "none", "--nccl-trace=proxy"), app="nccl-app")
    same(
        "proxy alone",
        only.all("SELECT DISTINCT eventKind FROM WARPSIGHT_NCCL_EVENT ORDER BY 1"),
        [(1,), (2,), (3,)],
    )
    rows = only.stats("nccl_proxy_sum")
    same(
        "algorithm",
        {
            (x["Operation"], x["Algorithm"], x["Protocol"], x["Channels"])
            for x in only.stats("nccl_sum")
            if x["Operation"] in ("Send", "Broadcast") or x["Message Bytes"] == "16"
        },
        {("Broadcast", "RING", "LL128", "2"), ("Send", "", "", "2"), ("AllReduce", "", "", "")},
    )
    same(
        "sends",
        {(x["Operation"], x["Direction"], x["Peer"]) for x in rows if x["Operation"] == "Send"},
        {("Send", "receive", "1"), ("Send", "send", "1")},
    )
    own = Report(
        options=("-t", "cuda,nvtx", "-s", "none", "--nccl-trace=all"),
        app="nccl-app",
        env={"NCCL_PROFILER_PLUGIN": "none"},
    )
    assert "NCCL_PROFILER_PLUGIN has NCCL load none" in own.err, own.err
    assert "NCCL has told nothing" not in own.err + only.err, own.err + only.err
    absent = Report(options=("-s", "none", "--nccl-trace=coll"), app="libraries-app")
    assert "NCCL has told nothing" in absent.err, absent.err
    same("rows", own.count("WARPSIGHT_COLLECTIVE", "eventId IS NOT NULL"), 0)


@test
def libraries():
    """Words of --trace make libraries say their calls, which are no ranges of the program."""
    calls = (
        "SELECT n.value, count(*) FROM WARPSIGHT_SLICE JOIN StringIds n ON n.id = nameId JOIN"
        " StringIds c ON c.id = categoryId AND c.value = 'CUBLAS_EVENTS' GROUP BY 1 ORDER BY 1"
    )
    ranges = (
        "SELECT DISTINCT coalesce(text, value) FROM NVTX_EVENTS LEFT JOIN StringIds ON"
        " id = textId WHERE eventType = 59 ORDER BY 1"
    )
    none = ("-s", "none")
    r = Report(options=("-t", "cuda,nvtx,cublas", *none), app="nccl-app")
    same("level 1", r.all(calls), [("cublasLtSSSMatmul", 1)])
    same(
        "ranges",
        [x for (x,) in r.all(ranges) if not x.startswith("nccl")],
        ["step"],
    )
    r = Report(options=("-t", "cublas-verbose", *none), app="nccl-app")
    every = [("cublasLtSSSMatmul", 1), ("cublasSetStream_v2", 1), ("cublasSgemm_v2", 1)]
    same("level 2", r.all(calls), every)
    same(
        "nothing else",
        r.all(ranges) if r.count("sqlite_master", "name = 'NVTX_EVENTS'") else [],
        [],
    )
    r = Report(
        options=("-t", "nccl,cublas,cudnn,cuda", *none),
        app="nccl-app",
        env={"CUBLAS_NVTX_LEVEL": "2"},
    )
    same("the user's own level", r.all(calls), every)
    same("its table", (r.count("CUBLAS_EVENTS"), r.count("CUDNN_EVENTS")), (3, 1))
    same("no range of the program", r.all(ranges)[-1:], [("ncclSend",)])
    same("collectives", r.count("WARPSIGHT_COLLECTIVE"), 15)


@test
def cublas():
    """What is multiplied is kept of each call; calls that the library makes itself are no calls."""
    r = Report(options=("-t", "cuda,cublas", "-s", "none"), app="cublas-app")
    rows = r.all(
        "SELECT value, count(*), transA, transB, m, n, k, batch, aType, bType, cType, computeType,"
        " algorithm, epilogue, flops, bytes, status FROM CUBLAS_EVENTS JOIN StringIds ON"
        " id = nameId GROUP BY 1, 5 ORDER BY 1, 5"
    )
    f, h, b = "fp32", "fp16", "bf16"
    none = (None, None, None)
    batched = "cublasGemmStridedBatchedEx"
    want = [
        # said by NVTX; cublasSgemm_v2 is so too, and not counted again
        ("cublasCreate_v2", 1) + (None,) * 15,
        (batched, 1, "N", "C", 64, 32, 16, 7, b, b, f, f, 99, None, 458752, 78848, None),
        ("cublasLtMatmul", 1, "T", "N", 128, 33, 512, 1, h, h, h, f, None, "gelu_bias")
        + (4325376, 173312, None),
        ("cublasSgemm_v2", 1, "N", "N", -1, 2, 3, None, f, f, f, *none, None, None, 7),
        ("cublasSgemm_v2", 3, "T", "N", 500, 300, 200, None, f, f, f, *none)
        + (60000000, 1240000, None),
    ]
    same("products", rows, want)
    # On the GPU each piece takes 1500 ns; the work of the last launch is of no library.
    same(
        "by call and shape",
        [
            (x["Call"], x["Calls"], x["GPU Ops"], x["Total Time (ns)"], x["GFLOP/s"])
            + (x["Bandwidth (MB/s)"], x["Shape"].split(" aType")[0])
            for x in r.stats("library_gpu_sum")
        ],
        [
            ("cublasSgemm_v2", "3", "3", "4500", "40000.0", "826666.667")
            + ("transA=T transB=N m=500 n=300 k=200",),
            (batched, "1", "2", "3000", "152.9", "26282.667")
            + ("transA=N transB=C m=64 n=32 k=16 batch=7",),
            ("cublasLtMatmul", "1", "1", "1500", "2883.6", "115541.333")
            + ("transA=T transB=N m=128 n=33 k=512 batch=1",),
        ],
    )


@test
def small_libraries():
    """cuFFT's and cuDNN's calls have the sizes of their plans; those of others their own."""
    words = "cuda,cufft,curand,gds,nvjpeg,cudnn,cusparse,cusolver"
    r = Report(options=("-t", words, "-s", "none"), app="libraries-app")
    name = "(SELECT value FROM StringIds WHERE id = nameId)"
    same(
        "transforms",
        r.all(
            "SELECT %s, plan, nx, ny, nz, batch, type, direction, bytes FROM CUFFT_EVENTS"
            " WHERE plan IS NOT NULL ORDER BY start" % name
        ),
        [
            ("cufftXtExec", 3, 64, 32, None, 5, "R2C", -1, 64 * 32 * 5 * 8),
            ("cufftExecC2C", 7, 1024, None, None, 6, "C2C", 1, 1024 * 6 * 16),
            ("cufftXtExec", 99, None, None, None, None, None, -1, None),
        ],
    )
    flops = r.one("SELECT flops FROM CUFFT_EVENTS WHERE plan = 7")
    assert abs(flops - 5 * 1024 * 10 * 6) < 2, flops
    same("plans", r.count("CUFFT_EVENTS", "plan IS NULL"), 2)
    same(
        "by shape",
        [(x["Call"], x["GPU Ops"]) for x in r.stats("library_gpu_sum")],
        [("cudnnBackendExecute", "1")] * 3
        + [("cufftExecC2C", "1"), ("cufftXtExec", "1"), ("cufftXtExec", "1")],
    )
    conv = ("8x6x32x30", "16x3x5x3", "8x16x16x15", "bf16", "2x2", "2x1", "1x1", 2)
    conv += (2 * 8 * 16 * 16 * 15 * 45, 2 * (8 * 6 * 32 * 30 + 16 * 45 + 8 * 16 * 16 * 15))
    old = ("2x3x9x9", "4x3x3x3", "2x4x5x6", "fp16", "2x2", "1x2", "1x1", 1)
    old += (2 * 240 * 27, 2 * (486 + 108 + 240))
    same(
        "convolutions",
        r.all(
            "SELECT %s, operations, x, w, y, dataType, stride, padding, dilation, groups, flops,"
            " bytes, status FROM CUDNN_EVENTS ORDER BY start" % name
        ),
        [
            ("cudnnBackendExecute", "conv_fwd+pointwise", *conv, None),
            ("cudnnBackendExecute", "conv_fwd", *conv, None),
            ("cudnnBackendExecute", *[None] * 12),
            ("cudnnConvolutionForward", "conv_fwd", *old, None),
        ],
    )
    same(
        "sparse products",
        r.all(
            "SELECT %s, transA, transB, rows, columns, nonzeros, n, computeType, algorithm, flops,"
            " status FROM CUSPARSE_EVENTS" % name
        ),
        [("cusparseSpMM", "N", "T", 100, 80, 500, 30, "complex128", 4, 8 * 500 * 30, None)],
    )
    lu = 4 * (2 * 60 * 30 * 30 - 90 * 900 + 2 * 27000 // 3)
    same(
        "factorisations",
        r.all("SELECT %s, m, n, lda, dataType, flops, status FROM CUSOLVER_EVENTS" % name),
        [
            ("cusolverDnDpotrf", None, 300, 304, "fp64", 9000000, None),
            ("cusolverDnXgetrf", 60, 30, 64, "complex64", lu, None),
        ],
    )
    same("numbers", r.all("SELECT count, bytes, status FROM CURAND_EVENTS"), [(1000, 4000, None)])
    same(
        "files",
        r.all("SELECT handle, size, offset, bytes, returnValue FROM CUFILE_EVENTS ORDER BY start"),
        [(16, 4096, 512, 2048, 2048), (16, 4096, -1, None, -1)],
    )
    same("images", r.all("SELECT %s, bytes FROM NVJPEG_EVENTS" % name), [("nvjpegDecode", 12345)])


main("cuda libraries")
