// Names for the shapes of the API, as openapi.json gives them.
import type { components } from "./schema";

type Schemas = components["schemas"];

export type Caller = Schemas["CallerPublic"];
export type Server = Schemas["ServerPublic"];
export type State = Schemas["State"];
export type LaunchBrief = Schemas["LaunchBrief"];
export type Launch = Schemas["LaunchPublic"];
export type Verdict = Schemas["VerdictPublic"];
export type Eta = Schemas["EtaPublic"];
export type Phase = Schemas["Phase"];
export type PhaseStay = Schemas["PhasePublic"];
export type Progress = Schemas["ProgressPublic"];
export type Diagnosis = Schemas["DiagnosisPublic"];
export type Evidence = Schemas["EvidencePublic"];
export type Finding = Schemas["FindingPublic"];
export type Node = Schemas["NodePublic"];
export type Gpu = Schemas["GpuPublic"];
export type Profile = Schemas["ProfilePublic"];
export type Recipe = Schemas["Profile"];
export type StartupHistory = Schemas["StartupHistory"];
export type Start = Schemas["StartPublic"];
export type Transition = Schemas["TransitionPublic"];
export type Operation = Schemas["OperationPublic"];
export type AcceptanceSample = Schemas["AcceptanceSamplePublic"];
export type Check = Schemas["CheckPublic"];
export type CheckCode = Schemas["CheckCode"];
export type Preflight = Schemas["PreflightPublic"];
export type Run = Schemas["BenchmarkRunPublic"];
export type RunDetail = Schemas["BenchmarkRunDetail"];
export type RunPoint = Schemas["PointPublic"];
export type Comparison = Schemas["BenchmarkComparison"];
export type MetricCompared = Schemas["MetricCompared"];
export type BenchmarkVerdict = MetricCompared["verdict"];
export type BenchmarkHistory = Schemas["BenchmarkHistory"];
export type Benchmark = Schemas["BenchmarkPublic"];
export type Problem = Schemas["Problem"];
