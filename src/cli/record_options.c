/* record_options.c - see record_options.h. */
#include "cli/record_options.h"
#include "library_numbers.h"

#define AT WS_RECORD_AT
/* The types of `export`, "sqlite,jsonlines,...". */
#define WS_AND ","
#define WS_TABLES(id, name, extension, takes, flags, summary) name
#define WS_TIMELINE(id, name, extension, takes, flags, summary) name
static const char export_types[] =
#include "export/formats.def"
	",none|text,info";
#undef WS_AND
#undef WS_TABLES
#undef WS_TIMELINE

const struct ws_opt ws_record_option_table[] = {
	{"output", 'o', WS_OPT_STRING, AT(output), "NAME", NULL,
	 "Name of the report. %p is the target's process id, %h the host's name, %q{VAR} the "
	 "environment variable VAR, %n the first number that "
	 "makes the name new, %% a percent sign. In a folder that exists, or with a trailing "
	 "slash, the default name is used inside it. '.wsrep' "
	 "is added unless the name has an extension that no variable has made. When processes of "
	 "the target have different "
	 "values of VAR (the RANK that "
	 "torchrun sets), each value gets a report of its own. In a rank of a job the rank is "
	 "added to a name without %q, %p and %n: run.rank3.wsrep.",
	 "report%n", .also = WS_IN_START},
	{"force-overwrite", 'f', WS_OPT_BOOL, AT(overwrite), NULL, NULL,
	 "Replace an existing report. The old one goes when the new collection has begun.", "false",
	 .also = WS_IN_START},
	{"trace", 't', WS_OPT_SET, AT(trace), "DOMAIN[,DOMAIN...]",
	 "cuda,nvtx,osrt,python-gil,openmp,openacc,syscall,malloc," WS_LIBRARY_TRACES
	 ",cublas-verbose,cusparse-verbose,"
	 "cusolver-verbose,nccl,tensorrt,nvshmem,opengl-annotations,"
	 "vulkan-annotations,none|cudla=cuda,"
	 "cudla-verbose=cuda,cuda-hw=cuda,"
	 "nvvideo,openxr,"
	 "openxr-annotations,dx11,dx11-annotations,dx12,dx12-annotations,wddm,"
	 "tegra-accelerators|cuda-sw=cuda",
	 "What to trace: CUDA calls, kernels and copies; NVTX ranges and marks; calls of the "
	 "operating system's runtime that block or take long; the times when Python threads hold "
	 "the global interpreter lock or wait for it; OpenMP's regions, tasks, barriers and "
	 "locks, and OpenACC's launches and data (docs/runtimes.md); system calls, where that is "
	 "permitted (docs/system-calls.md); a sample of the memory that is allocated, with call "
	 "stacks (malloc); calls of libraries, with what "
	 "matters of their arguments (docs/libraries.md), of OpenGL and Vulkan with "
	 "-annotations only debug groups, labels and frames, and with -verbose also those that "
	 "only "
	 "set something; or nothing. Without this option, OpenGL is traced only if the program is "
	 "linked to it.",
	 WS_DEFAULT_TRACE, .also = WS_IN_LAUNCH},
	{"sample", 's', WS_OPT_ENUM, AT(sample), "SCOPE",
	 "process-tree,system-wide,none,cpu|xhv=process-tree,xhv-system-wide=system-wide",
	 "Whose CPU use to sample: that of the target and everything that it starts (cpu is the "
	 "same), of everything that runs on the machine, or nobody's. Context switches are "
	 "recorded "
	 "for the same processes.",
	 "process-tree", .also = WS_IN_LAUNCH | WS_IN_START},
	{"sampling-frequency", 0, WS_OPT_STRING, AT(frequency_given), "HZ", NULL,
	 "Samples per second of each running thread, 1 to 100000. Default: 1000.", NULL,
	 .also = WS_IN_LAUNCH | WS_IN_START},
	{"sampling-period", 0, WS_OPT_STRING, AT(period_given), "EVENTS", NULL,
	 "Take a sample every EVENTS nanoseconds of CPU time (cycles with --backtrace=lbr), "
	 "instead of by frequency; at least 10000.",
	 NULL, .also = WS_IN_LAUNCH | WS_IN_START},
	{"backtrace", 'b', WS_OPT_ENUM, AT(backtrace), "HOW", "auto,fp,dwarf,lbr,none",
	 "How to find the call stacks of samples: by whatever works for each module (auto), by "
	 "frame "
	 "pointers (fp), by call frame information from copied stacks (dwarf), by the processor's "
	 "records of branches (lbr), or not at all.",
	 "auto", .also = WS_IN_LAUNCH | WS_IN_START},
	{"samples-per-backtrace", 0, WS_OPT_INT, AT(samples_per_backtrace), "N", NULL,
	 "Take a call stack with every Nth sample of a thread only.", "1",
	 .also = WS_IN_LAUNCH | WS_IN_START},
	{"sample-stack-size", 0, WS_OPT_INT, AT(sample_stack), "BYTES", NULL,
	 "How much of a thread's stack a sample copies to find callers, 1024 to 32768. Deeper "
	 "stacks are incomplete; more costs time with each sample.",
	 "8192", .also = WS_IN_LAUNCH | WS_IN_START},
	{"cpuctxsw", 0, WS_OPT_ENUM, AT(cpuctxsw), "SCOPE", "process-tree,system-wide,none",
	 "Whose context switches to record. Has an effect only with --sample=none (the default is "
	 "then process-tree); otherwise --sample decides.",
	 NULL, .also = WS_IN_LAUNCH | WS_IN_START},
	{"cpu-core-events", 0, WS_OPT_STRING, AT(core_events), "EVENT[,EVENT...]|help", NULL,
	 "Sample on these events of the processor too, or count them with --event-sample; help "
	 "lists them.",
	 NULL, .also = WS_IN_LAUNCH | WS_IN_START},
	{"cpu-core-metrics", 0, WS_OPT_STRING, AT(core_metrics), "METRIC[,METRIC...]|help", NULL,
	 "Compute these metrics from events of the processor, of every CPU over time: ipc, "
	 "llc-miss-rate and others. help lists them, and which of them this machine can count.",
	 NULL, .also = WS_IN_LAUNCH | WS_IN_START},
	{"os-events", 0, WS_OPT_STRING, AT(os_events), "EVENT[,EVENT...]|help", NULL,
	 "Sample on these events of the kernel too, or count them with --event-sample; help lists "
	 "them.",
	 NULL, .also = WS_IN_LAUNCH | WS_IN_START},
	{"event-sampling-interval", 0, WS_OPT_STRING, AT(event_interval), "MS", NULL,
	 "Milliseconds between two readings of the counters of --event-sample, 1 to 1000. "
	 "Default: 20.",
	 NULL, .also = WS_IN_LAUNCH | WS_IN_START},
	{"event-sampling-frequency", 0, WS_OPT_STRING, AT(event_frequency), "HZ", NULL,
	 "The older form of --event-sampling-interval: readings per second, 1 to 1000.", NULL,
	 .also = WS_IN_LAUNCH | WS_IN_START},
	{"event-sample", 0, WS_OPT_ENUM, AT(event_sample), "SCOPE", "system-wide,none",
	 "Count the events of --cpu-core-events and --os-events (by default instructions) on every "
	 "CPU over time instead of sampling on them.",
	 "none", .also = WS_IN_LAUNCH | WS_IN_START},
	{"ftrace", 0, WS_OPT_STRING, AT(ftrace), "SUBSYSTEM/EVENT[,...]|help", NULL,
	 "Record these tracepoints of the kernel, on all CPUs where that is permitted; an event "
	 "may be *. help lists them.",
	 NULL, .also = WS_IN_LAUNCH | WS_IN_START},
	{"system-metrics", 0, WS_OPT_STRING, AT(system_metrics), "GROUP[,GROUP...]", NULL,
	 "What to record of the machine besides the target: all, none, or some of cpu, memory, "
	 "disk, network, pressure, cgroup, power, process (memory and I/O of the recorded "
	 "processes) and gpu (power, clocks, memory and links by NVIDIA's driver; needs no "
	 "rights). Default: all.",
	 NULL, .also = WS_IN_LAUNCH},
	{"system-metrics-frequency", 0, WS_OPT_INT, AT(system_metrics_hz), "HZ", NULL,
	 "How often the system metrics are read, 1 to 100 times a second.", "10",
	 .also = WS_IN_LAUNCH},
	{"gpu-metrics-devices", 0, WS_OPT_STRING, AT(gpu_metrics_devices), "GPU[,GPU...]", NULL,
	 "Sample the performance monitors of these GPUs (how busy SMs, tensor cores, memory and "
	 "links are): numbers as nvidia-smi has them, all, cuda-visible (those that "
	 "CUDA_VISIBLE_DEVICES names) or none. help lists the GPUs and what keeps them from being "
	 "sampled.",
	 "none", .also = WS_IN_LAUNCH | WS_IN_START},
	{"gpu-metrics-frequency", 0, WS_OPT_INT, AT(gpu_metrics_hz), "HZ", NULL,
	 "Samples of --gpu-metrics-devices a second, 10 to 200000.", "10000",
	 .also = WS_IN_LAUNCH | WS_IN_START},
	{"gpu-metrics-set", 0, WS_OPT_STRING, AT(gpu_metrics_set), "SET|FILE", NULL,
	 "What to sample: a set (help lists them), or a file with the name of a CUPTI metric a "
	 "line and, if anything follows it, what to call it. Default: general.",
	 NULL, .also = WS_IN_LAUNCH | WS_IN_START},
	{"nic-metrics", 0, WS_OPT_ENUM, AT(nic_metrics), "WHAT", "true,false,none=false",
	 "The same as network in --system-metrics, or without it.", NULL, .also = WS_IN_LAUNCH},
	{"storage-metrics", 0, WS_OPT_ENUM, AT(storage_metrics), "WHAT", "true,false,none=false",
	 "The same as disk in --system-metrics, or without it.", NULL, .also = WS_IN_LAUNCH},
	{"python-sampling", 0, WS_OPT_ENUM, AT(python_sampling), "BOOL", "true,false",
	 "Record the functions, files and lines of Python code in call stacks, in CPython 3.8 to "
	 "3.14. On by default unless --sample=none is given.",
	 NULL, .also = WS_IN_LAUNCH},
	{"python-sampling-frequency", 0, WS_OPT_STRING, AT(python_frequency_given), "HZ", NULL,
	 "Samples per second of each running Python thread, 1 to 2000. Default: the frequency of "
	 "the samples; above 1000, that of every second or every third sample, and so on.",
	 NULL, .also = WS_IN_LAUNCH},
	{"python-backtrace", 0, WS_OPT_ENUM, AT(python_backtrace), "WHAT", "cuda,none,false",
	 "Include Python frames in the call stacks of CUDA calls: of those that --cudabacktrace "
	 "chooses, of all where it chooses none.",
	 "none", .also = WS_IN_LAUNCH},
	{"python-functions-trace", 0, WS_OPT_STRING, AT(python_functions), "FILE", NULL,
	 "Record each call of the functions that a JSON file (or pytorch, dask: those lists are "
	 "built in) names, [{\"module\": \"m\", "
	 "\"functions\": [\"f\", \"Class.method\"], \"domain\": \"d\"}], as a range. The "
	 "report python_function_sum of stats adds them up.",
	 NULL, .also = WS_IN_LAUNCH},
	{"pytorch", 0, WS_OPT_SET, AT(pytorch), "WHAT[,WHAT...]",
	 "functions-trace,none|autograd-nvtx,autograd-shapes-nvtx",
	 "functions-trace is --python-functions-trace=pytorch, beside another list. For ranges of "
	 "all operators let the program call torch.autograd.profiler.emit_nvtx.",
	 "none", .also = WS_IN_LAUNCH},
	{"dask", 0, WS_OPT_ENUM, AT(dask), "WHAT", "functions-trace,none",
	 "functions-trace is --python-functions-trace=dask, beside another list.", "none",
	 .also = WS_IN_LAUNCH},
	{"mpi-impl", 0, WS_OPT_ENUM, AT(mpi_impl), "NAME", "openmpi,mpich",
	 "Which implementation of MPI the program uses. It is found out by itself: the report says "
	 "if it is another one.",
	 NULL, .also = WS_IN_LAUNCH},
	{"nccl-trace", 0, WS_OPT_SET, AT(nccl_trace), "WHAT[,WHAT...]",
	 "group,coll,p2p,proxy,step,control,channel,net,all,none",
	 "What NCCL itself should tell of its work, by a profiler plug-in that it loads "
	 "(NCCL 2.23 and later): collectives (coll) and sends and receives (p2p) with algorithm, "
	 "protocol and channels, groups of them (group), operations of the proxy thread on the "
	 "network (proxy), each transfer (step), what that thread does otherwise (control), each "
	 "channel of a kernel (channel), requests of the network plug-in (net), or all of it. See "
	 "docs/libraries.md.",
	 "none", .also = WS_IN_LAUNCH},
	{"attach", 0, WS_OPT_INT, AT(attach), "PID", NULL,
	 "Record this process, which is already running, and what it has started and will start. "
	 "It must be one of the user's own processes, unless the user is root. Recording ends with "
	 "the duration, an interrupt, or the process; the process goes on as before.",
	 NULL, .also = WS_IN_LAUNCH},
	{"per-node", 0, WS_OPT_FLAG, AT(per_node), NULL, NULL,
	 "In a job: record all ranks of a host together, into one report whose name includes that "
	 "of the host. The first one starts the recorder; its options count.",
	 NULL},
	{"delay", 'y', WS_OPT_SECONDS, AT(delay), "SECONDS", NULL,
	 "Start collecting this long after the target has started.", "0"},
	{"duration", 'd', WS_OPT_SECONDS, AT(duration), "SECONDS", NULL,
	 "Stop collecting after this long, then send the target the signal of --kill. 0: at the "
	 "target's end.",
	 "0", .also = WS_IN_START},
	{"capture-range", 'c', WS_OPT_ENUM, AT(capture_range), "RANGE",
	 "none,cudaProfilerApi,nvtx,program,hotkey",
	 "Collect only while a range of the program is open: from cudaProfilerStart to "
	 "cudaProfilerStop (cudaProfilerApi), an NVTX range of the name of --nvtx-capture (nvtx), "
	 "from ws_start to ws_stop of warpsight/annotate.h (program), or from one press of the key "
	 "of --hotkey-capture to the next, on an X11 display (hotkey).",
	 "none", .also = WS_IN_START},
	{"hotkey-capture", 0, WS_OPT_STRING, AT(hotkey_capture), "KEY", NULL,
	 "The key of --capture-range=hotkey: F1 to F12. No other program gets it meanwhile.",
	 WS_DEFAULT_KEY, .also = WS_IN_LAUNCH | WS_IN_START},
	{"nvtx-capture", 'p', WS_OPT_STRING, AT(nvtx_capture), "RANGE[@DOMAIN|@*]", NULL,
	 "The NVTX range of --capture-range=nvtx: of the default domain, of a named one, or of any "
	 "(@*). A \\ before an @ makes it part of the name. At launch: for each start without one.",
	 NULL, .also = WS_IN_LAUNCH | WS_IN_START},
	{"capture-range-end", 0, WS_OPT_STRING, AT(capture_range_end), "HOW", NULL,
	 "What the end of the range does: none (the collection goes on), stop (it ends, the target "
	 "runs on), stop-shutdown (and the target is sent the signal of --kill), repeat[:N] (each "
	 "range, or each of the first N, makes a report of its own), repeat-shutdown:N (and then "
	 "the signal). By default stop-shutdown.",
	 NULL, .also = WS_IN_START},
	{"flight-recorder", 0, WS_OPT_STRING, AT(flight_recorder), "TIME[,MEMORY]", NULL,
	 "Record without end, keep what happened in the last TIME (30s, 5m) in memory, MEMORY at "
	 "most (by default 256M), and write it as a report NAME.1.CAUSE.wsrep whenever 'warpsight "
	 "snapshot' says so, the recorder gets the signal URG, or the program dies: by a signal "
	 "or "
	 "with a status other than 0. Nothing else is written.",
	 NULL, .also = WS_IN_LAUNCH | WS_IN_START},
	{"steps", 0, WS_OPT_STRING, AT(steps), "A-B", NULL,
	 "Collect only these steps of the program's loop, both included. Steps are the NVTX ranges "
	 "of --step-range or, without it, those that are called step, iteration, iter, train step, "
	 "training step or ProfilerStep, or the outermost ranges that come again and again, or, "
	 "where there are none, the repeating sequence of launches of CUDA kernels. Their numbers "
	 "are those at the end of their names; others are counted from 0. A message says what was "
	 "taken for a step.",
	 NULL, .also = WS_IN_START},
	{"step-range", 0, WS_OPT_STRING, AT(step_range), "NAME[@DOMAIN|@*]", NULL,
	 "The NVTX ranges that are the steps of --steps: of this name, or of it and a number; of "
	 "any domain unless one is named.",
	 NULL, .also = WS_IN_START},
	{"trigger", 0, WS_OPT_LIST, AT(triggers), "WHAT[,WHAT...]", NULL,
	 "What else makes the flight recorder write a snapshot: 'range NAME > 500ms' (an NVTX "
	 "range of that name, alone or with a number after it, that lasted longer), 'range NAME > "
	 "1.5x' (longer than so many times the median of the last ones), 'step > 1.5x' or 'step > "
	 "500ms' (a range called step, iteration, iter, train step, ProfilerStep...), 'mark TEXT', "
	 "'gpu idle > 100ms', 'xid' (an error of a GPU in the kernel's log). May be given several "
	 "times. At most one such snapshot is written within the recorder's TIME, and 100 in all.",
	 NULL, .also = WS_IN_LAUNCH | WS_IN_START},
	{"kill", 0, WS_OPT_STRING, AT(kill), "SIGNAL", NULL,
	 "Signal to send to the target when the duration, or the last capture range, is over: "
	 "none, sigterm, sigkill, another "
	 "name or a number. With none the target runs on unrecorded, and profile waits for it.",
	 "sigterm"},
	{"sync", 0, WS_OPT_SECONDS, AT(sync), "SECONDS", NULL,
	 "Flush what was recorded to the disk this often and at the end, so that a power cut loses "
	 "no more than that. 0: the system writes when it likes; a kill of the recorder loses 0.1 "
	 "seconds at most either way.",
	 "0"},
	{"wait", 0, WS_OPT_ENUM, AT(wait), "WHOM", "primary,all",
	 "End when the target ends (primary), or when every process it has started has (all); an "
	 "interrupt ends the wait.",
	 "all", .also = WS_IN_LAUNCH},
	{"env-var", 'e', WS_OPT_LIST, AT(env), "NAME=VALUE[,NAME=VALUE...]", NULL,
	 "Set variables in the target's environment.", NULL, .also = WS_IN_LAUNCH},
	{"inherit-environment", 'n', WS_OPT_BOOL, AT(inherit), NULL, NULL,
	 "Give the target this environment; with false it has only what --env-var sets, and what "
	 "recording needs.",
	 "true", .also = WS_IN_LAUNCH},
	{"jit-names", 0, WS_OPT_SET, AT(jit_names), "RUNTIME[,RUNTIME...]", "none,java,node",
	 "Have Java or Node.js report the names of the functions that they generate (those of Java "
	 "are read from its memory without it, where that is permitted), by options in "
	 "the target's environment: JAVA_TOOL_OPTIONS (JDK 17 and later; Java then prints a line "
	 "'Picked up JAVA_TOOL_OPTIONS' on standard error) and NODE_OPTIONS (Node.js then writes a "
	 "file isolate*-v8.log into its folder). Frame pointers make Java a little slower.",
	 "none", .also = WS_IN_LAUNCH},
	{"run-as", 0, WS_OPT_STRING, AT(run_as), "USER", NULL,
	 "Run the target as another user. Needs root.", NULL, .also = WS_IN_LAUNCH},
	{"show-output", 'w', WS_OPT_BOOL, AT(show_output), NULL, NULL,
	 "Let the target write to its standard output and error. With false, what it writes goes "
	 "only into the report.",
	 "true", .also = WS_IN_LAUNCH},
	{"store-output", 0, WS_OPT_BOOL, AT(store_output), NULL, NULL,
	 "Also keep what the target writes in the report. Its output is then a pipe rather than a "
	 "terminal or file.",
	 "false", .also = WS_IN_LAUNCH},
	{"store-environment", 0, WS_OPT_BOOL, AT(store_environment), NULL, NULL,
	 "Keep the target's whole environment in the report. Otherwise the report has the values "
	 "of variables that launchers set and that are known to hold no secret (RANK, "
	 "SLURM_PROCID, CUDA_VISIBLE_DEVICES...), and only the names of the launchers' other "
	 "variables (SLURM_*, KUBERNETES_*).",
	 "false", .also = WS_IN_LAUNCH},
	{"keep-command-lines", 0, WS_OPT_BOOL, AT(keep_command_lines), NULL, NULL,
	 "Keep the command lines of processes in the report as they are. Otherwise what looks like "
	 "a password, a token or a key in them is stored as ***.",
	 "false", .also = WS_IN_LAUNCH},
	{"osrt-threshold", 0, WS_OPT_STRING, AT(threshold), "TIME", NULL,
	 "Shortest call of the OS runtime that is recorded: nanoseconds, or with a unit (ns, us, "
	 "ms, s).",
	 "1000", .also = WS_IN_LAUNCH},
	{"osrt-backtrace-threshold", 0, WS_OPT_STRING, AT(stack_threshold), "TIME", NULL,
	 "Shortest call of the OS runtime whose call stack is recorded: nanoseconds, or with a "
	 "unit.",
	 "80000", .also = WS_IN_LAUNCH},
	{"osrt-backtrace-depth", 0, WS_OPT_INT, AT(stack_depth), "FRAMES", NULL,
	 "The most frames to record of the stack of a traced call, 0 to 1000; 0 records none.",
	 "24", .also = WS_IN_LAUNCH},
	{"osrt-backtrace-stack-size", 0, WS_OPT_INT, AT(stack_size), "BYTES", NULL,
	 "How many bytes of the stack to copy for that, 0 to 65528; 0 records none.", "6144",
	 .also = WS_IN_LAUNCH},
	{"cudabacktrace", 0, WS_OPT_STRING, AT(cuda_stacks), "CALLS", NULL,
	 "Record the stacks of CUDA calls: all, none, or any of kernel, memory, sync and other, "
	 "separated by commas; each may be followed by a colon and the time in nanoseconds that a "
	 "call must last (by default 80000): kernel:0,sync. true means all, false none.",
	 "none", .also = WS_IN_LAUNCH},
	{"cudabacktrace-threshold", 0, WS_OPT_STRING, AT(cuda_stack_threshold), "NS", NULL,
	 "The time in nanoseconds that a CUDA call must last for its stack, where --cudabacktrace "
	 "names none.",
	 NULL, .also = WS_IN_LAUNCH},
	{"nvtx-domain-include", 0, WS_OPT_STRING, AT(domain_include), "DOMAIN[,DOMAIN...]", NULL,
	 "Record only these NVTX domains; 'default' is the one without a name.", NULL,
	 .also = WS_IN_LAUNCH},
	{"nvtx-domain-exclude", 0, WS_OPT_STRING, AT(domain_exclude), "DOMAIN[,DOMAIN...]", NULL,
	 "Record all NVTX domains but these.", NULL, .also = WS_IN_LAUNCH},
	{"opengl-gpu-workload", 0, WS_OPT_BOOL, AT(opengl_gpu), NULL, NULL,
	 "Measure how long the GPU works on what --trace=opengl records, with timer queries.",
	 "true", .also = WS_IN_LAUNCH},
	{"vulkan-gpu-workload", 0, WS_OPT_ENUM, AT(vulkan_gpu), "HOW",
	 "individual,batch,none|true=individual,false=none",
	 "Measure how long the GPU works on each command buffer and each label in it (individual), "
	 "or on command buffers only (batch), with timestamps.",
	 "individual", .also = WS_IN_LAUNCH},
	{"cuda-graph-trace", 0, WS_OPT_ENUM, AT(cuda_graphs), "GRANULARITY",
	 "graph,node,graph:host-only,node:host-only|graph:host-and-device=graph,"
	 "node:host-and-device=node",
	 "Record each launch of a CUDA graph as one piece of work (graph), or each of its nodes, "
	 "which costs more (node). Only launches from the CPU are recorded; :host-only says so "
	 "explicitly.",
	 "graph", .also = WS_IN_LAUNCH},
	{"cuda-memory-usage", 0, WS_OPT_BOOL, AT(cuda_memory), NULL, NULL,
	 "Record when GPU memory is allocated and freed, and how much is in use. Slows down "
	 "programs "
	 "that allocate often.",
	 "false", .also = WS_IN_LAUNCH},
	{"cuda-um-cpu-page-faults", 0, WS_OPT_BOOL, AT(cuda_um_cpu), NULL, NULL,
	 "Record unified memory traffic and the CPU's page faults on it. Has a high overhead.",
	 "false", .also = WS_IN_LAUNCH},
	{"cuda-um-gpu-page-faults", 0, WS_OPT_BOOL, AT(cuda_um_gpu), NULL, NULL,
	 "Record unified memory traffic and the GPU's page faults on it. Has a high overhead.",
	 "false", .also = WS_IN_LAUNCH},
	{"cuda-event-trace", 0, WS_OPT_ENUM, AT(cuda_events), "WHAT", "auto,true,false,timestamps",
	 "Record CUDA events as they are recorded into streams; with timestamps also when the GPU "
	 "reached each.",
	 "auto", .also = WS_IN_LAUNCH},
	{"cuda-flush-interval", 0, WS_OPT_INT, AT(cuda_flush), "MS", NULL,
	 "Take finished CUDA records from the driver's buffers this often, in milliseconds; 0: "
	 "only when a buffer is full.",
	 "100", .also = WS_IN_LAUNCH},
	{"flush-on-cudaprofilerstop", 0, WS_OPT_BOOL, AT(cuda_flush_stop), NULL, NULL,
	 "Take all CUDA records when the program calls cudaProfilerStop.", "true",
	 .also = WS_IN_LAUNCH},
	{"cuda-api", 0, WS_OPT_STRING, AT(cuda_apis), "+NAME|-NAME[,...]", NULL,
	 "Trace more CUDA calls (+) or leave some out (-); a name may end in *. By default calls "
	 "are "
	 "traced that submit work to the GPU, move or allocate memory, wait, or build and load "
	 "code.",
	 NULL, .also = WS_IN_LAUNCH},
	{"cuda-trace-all-apis", 0, WS_OPT_BOOL, AT(cuda_all), NULL, NULL,
	 "Trace every call of the CUDA runtime and driver, including queries and driver calls "
	 "inside "
	 "runtime calls. Has a high overhead.",
	 "false", .also = WS_IN_LAUNCH},
	{"trace-fork-before-exec", 0, WS_OPT_BOOL, AT(trace_forks), NULL, NULL,
	 "Record forked children that have not called exec.", "true", .also = WS_IN_LAUNCH},
	{"lossless", 0, WS_OPT_BOOL, AT(lossless), NULL, NULL,
	 "Let the target wait when the memory for recording is full, instead of dropping and "
	 "counting events; and record every call stack and context switch, however much that slows "
	 "it.",
	 "false", .also = WS_IN_LAUNCH},
	{"ring-memory", 0, WS_OPT_INT, AT(ring_memory), "MIB", NULL,
	 "The most memory for events that are recorded but not yet written, in MiB, for the whole "
	 "process tree.",
	 "256", .also = WS_IN_LAUNCH},
	{"resolve-symbols", 0, WS_OPT_BOOL, AT(resolve_symbols), NULL, NULL,
	 "Find the names of the functions in call stacks at the end. With false, 'warpsight "
	 "symbolize' can do it later.",
	 "true", .also = WS_IN_LAUNCH | WS_IN_START},
	{"symbols", 0, WS_OPT_LIST, AT(symbols), "DIR[,DIR...]", NULL,
	 "Also search these folders for symbols and separate debug files: by build id "
	 "(.build-id/xx/...debug) or by name; a file is used only if its build id is the recorded "
	 "one.",
	 NULL, .also = WS_IN_LAUNCH | WS_IN_START},
	{"debug-symbols", 0, WS_OPT_LIST, AT(debug_symbols), "DIR[:DIR...]", NULL,
	 "The same as --symbols, with colons between the folders.", NULL,
	 .also = WS_IN_LAUNCH | WS_IN_START},
	{"show-source-info", 0, WS_OPT_BOOL, AT(source_info), NULL, NULL,
	 "Read debugging information for source files, lines and inlined functions.", "true",
	 .also = WS_IN_LAUNCH | WS_IN_START},
	{"stats", 0, WS_OPT_BOOL, AT(stats), NULL, NULL, "Print the default statistics at the end.",
	 "false", .also = WS_IN_START},
	{"export", 0, WS_OPT_SET, AT(export_to), "TYPE[,TYPE...]", export_types,
	 "Export the report at the end, as 'warpsight export' does.", "none", .also = WS_IN_START},
	{"command-file", 0, WS_OPT_STRING, AT(command_file), "FILE", NULL,
	 "Read further options, and the target if none is given, from a file: words as a shell "
	 "would split them, # comments. Options given "
	 "on the command line win.",
	 NULL, .also = WS_IN_LAUNCH},
	{"strict", 0, WS_OPT_BOOL, AT(strict), NULL, NULL,
	 "Refuse options that ask for what this version does not record, instead of warning and "
	 "recording the rest.",
	 "false", .also = WS_IN_LAUNCH | WS_IN_START | WS_IN_ALL},
	{"no-findings", 0, WS_OPT_FLAG, AT(no_findings), NULL, NULL,
	 "Do not say at the end what cost most and what to do (three findings at most, as "
	 "'warpsight analyze' has them).",
	 NULL, .also = WS_IN_START},
	{"session", 0, WS_OPT_STRING, AT(session), "NAME", NULL,
	 "The session to be in: its name, or its ID in 'warpsight sessions list'. By default "
	 "'[default]', or the only one there is.",
	 NULL, .also = WS_IN_LAUNCH | WS_IN_START | WS_IN_ALL},
	{"session-new", 0, WS_OPT_STRING, AT(session_new), "NAME", NULL,
	 "Make a session of this name, by which other commands (stop, status, ...) find it. "
	 "%q{VAR} is the environment variable VAR, %h the host's name, %% a percent sign. "
	 "Default, of launch and start: [default].",
	 NULL, .also = WS_IN_LAUNCH | WS_IN_START | WS_IN_ALL},
	{"start-later", 'Y', WS_OPT_BOOL, AT(start_later), NULL, NULL,
	 "Collect nothing until 'warpsight start' is given in another terminal, as 'warpsight "
	 "launch' does.",
	 "false"},
	{"quiet", 'q', WS_OPT_FLAG, AT(quiet), NULL, NULL, "Print nothing but errors at the end.",
	 NULL, .also = WS_IN_LAUNCH | WS_IN_START | WS_IN_ALL},
#define BOTH .also = WS_IN_LAUNCH | WS_IN_START
#define FLAG(name, letter, nothing, sentence) \
	{name, letter, WS_OPT_UNSUPPORTED, 0, NULL, nothing, sentence, NULL, BOTH},
#define VALUE(name, letter, arg, nothing, sentence) \
	{name, letter, WS_OPT_UNSUPPORTED, 0, arg, nothing, sentence, NULL, BOTH},
#define FLAG_MISLEADS(name, letter, nothing, sentence, consequence) \
	{name, letter, WS_OPT_UNSUPPORTED, 0, NULL, nothing, sentence, consequence, BOTH},
#define VALUE_MISLEADS(name, letter, arg, nothing, sentence, consequence) \
	{name, letter, WS_OPT_UNSUPPORTED, 0, arg, nothing, sentence, consequence, BOTH},
#define OLD(name, letter, option, values) \
	{name, letter, WS_OPT_ALIAS, 0, NULL, values, option, NULL},
#include "cli/nsys_options.def"
#undef BOTH
#undef FLAG
#undef VALUE
#undef FLAG_MISLEADS
#undef VALUE_MISLEADS
#undef OLD
	{NULL},
};
