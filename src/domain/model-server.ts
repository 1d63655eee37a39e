/** Model servers: how to run one, its status, and what is known of its models. */
import type { Feature, Modality, RouteSettings } from './models.ts'
import type { PricingItem } from './usage.ts'

/** Never leaves its file and the memory of the server that runs it. */
export interface ProcessSpec {
  /** Program and arguments, with the placeholders `{port}`, `{key}`, and `{slug}`. */
  command: readonly string[]
  /** Ends what a signal does not reach, such as a container; with the same placeholders. */
  stopCommand: readonly string[] | null
  /** Path below its URL that returns 200 once it is ready. */
  health: string
  /** Stopped after this long without a request; null = never. */
  idleMs: number | null
  /** Memory it takes on its device; null = as measured, if possible. */
  memoryBytes: number | null
  /** Name of the device in the catalog, or `CPU`; null if memory is not managed per device. */
  device: string | null
  /** Never stopped to make room, nor for being idle. */
  pin: boolean
  /** Loaded when Tollgate starts. */
  preload: boolean
  /** Time limit for loading. */
  startMs: number
  /** Hash of the above: the database stores it, so that a command runs only for the upstream that it was declared with. */
  hash: string
}

/** The device that is the machine's own memory. */
export const CPU = 'cpu'

/** Memory limit in bytes for all model servers, per device; null: the whole machine. Devices not listed are unlimited. */
export type MemoryBudgets = ReadonlyMap<string | null, number>

/** Declared in files, with the memory limits for all of them. */
export interface ProcessSpecs {
  byUpstream: ReadonlyMap<string, ProcessSpec>
  memory: MemoryBudgets
}

export const NO_PROCESSES: ProcessSpecs = { byUpstream: new Map(), memory: new Map() }

/** `sleeping`: running, but it has unloaded its model. `failed`: not restarted for now. */
export const SERVER_STATES = ['stopped', 'loading', 'ready', 'sleeping', 'failed'] as const
export type ServerState = (typeof SERVER_STATES)[number]

/** For administrators. */
export interface ServerStatus {
  state: ServerState
  /** Why it is not running although it should be; null if all is well. */
  reason: string | null
  pid: number | null
  answering: number
  queued: number
  /** Memory it needs in the memory plan; null if not known yet. */
  memory_bytes: number | null
}

/** Default time limit for loading: a large model from a slow disk. */
export const START_MS = 120_000
export const IDLE_MS = 600_000

/** What a running local server reports of its model, and what we measured; null = unknown. */
export interface ServedFigures {
  /** Tokens per request. */
  context_length: number | null
  /** Such as `Q4_K_M`. */
  quantization: string | null
  /** Size of the weights' file. */
  size_bytes: number | null
  /** Recent output rate. */
  tokens_per_second: number | null
}

/** Such as `4096-token context, Q4_K_M, 2.0 GB, 31.5 tokens/s`; '' if nothing is known. */
export const toFigureText = ({
  context_length: context,
  quantization,
  size_bytes: bytes,
  tokens_per_second: speed,
}: ServedFigures): string =>
  [
    context !== null && `${context}-token context`,
    quantization,
    bytes !== null && `${(bytes / 1e9).toFixed(1)} GB`,
    speed !== null && `${speed} tokens/s`,
  ]
    .filter(Boolean)
    .join(', ')

export interface ListedModel {
  /** The provider's name of the model. */
  id: string
  name?: string
  /** Tokens. */
  contextLength?: number
  /** Tokens per request that a local server has loaded, which the catalog may contradict. */
  servedContext?: number
  /** Tokens it was trained with: a local server accepts no more, whatever is configured. */
  trainedContext?: number
  maxOutputLength?: number
  inputModalities?: Modality[]
  outputModalities?: Modality[]
  /** Complete list of features, if the provider gives one. */
  supportedFeatures?: Feature[]
  /** Features known to be supported or not. */
  can?: { [Name in Feature]?: boolean }
  /** USD per token. */
  pricing?: PricingItem[]
  /** How to request reasoning, and which options it accepts. */
  options?: RouteSettings
  /** Parameter count as its server writes it, such as `3.2B`. */
  parameters?: string
  /** Such as `Q4_K_M`. */
  quantization?: string
  /** Of its file. */
  sizeBytes?: number
  /** True if a local server forwards its requests to a paid service. */
  isElsewhere?: boolean
  /** False for other purposes, such as embeddings. */
  canChat?: boolean
  /** Data that could not be used, as phrases that follow its name. */
  oddities?: string[]
}
