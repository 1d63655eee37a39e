/** Model servers, and known facts about their models. */
import type { Feature, Modality, RouteSettings } from './models.ts'
import type { PricingItem } from './usage.ts'

/** Never leaves its file and the memory of the server that runs it. */
export interface ProcessSpec {
  /** With the placeholders `{port}`, `{key}`, and `{slug}`. */
  command: readonly string[]
  /** For what a signal does not reach, such as a container; same placeholders. */
  stopCommand: readonly string[] | null
  /** Path that returns 200 once ready. */
  health: string
  /** null = never. */
  idleMs: number | null
  /** null = as measured. */
  memoryBytes: number | null
  /** Name in the catalog, or `CPU`; null = not managed per device. */
  device: string | null
  /** Never stopped for space or idleness. */
  pin: boolean
  preload: boolean
  startMs: number
  /** Stored in the database, so that a command runs only for the upstream it was declared with. */
  hash: string
}

/** The machine's own memory. */
export const CPU = 'cpu'

/** Bytes per device; null: the whole machine. Others are unlimited. */
export type MemoryBudgets = ReadonlyMap<string | null, number>

export interface ProcessSpecs {
  byUpstream: ReadonlyMap<string, ProcessSpec>
  memory: MemoryBudgets
}

/** All that a process needs if it doesn't run model servers. */
export interface ProcessHashes {
  byUpstream: ReadonlyMap<string, Pick<ProcessSpec, 'hash'>>
}

export const NO_PROCESSES: ProcessSpecs = { byUpstream: new Map(), memory: new Map() }

/** `sleeping`: has unloaded its model. `failed`: not restarted for now. */
export const SERVER_STATES = ['stopped', 'loading', 'ready', 'sleeping', 'failed'] as const
export type ServerState = (typeof SERVER_STATES)[number]

export interface ServerStatus {
  state: ServerState
  /** null if all is well. */
  reason: string | null
  pid: number | null
  answering: number
  queued: number
  /** As planned; null if unknown. */
  memory_bytes: number | null
}

/** A large model from a slow disk. */
export const START_MS = 120_000
export const IDLE_MS = 600_000

/** Reported by the server, or measured; null = unknown. */
export interface ServedFigures {
  /** Tokens per request. */
  context_length: number | null
  /** Such as `Q4_K_M`. */
  quantization: string | null
  size_bytes: number | null
  tokens_per_second: number | null
}

/** Such as `4096-token context, Q4_K_M, 2.0 GB, 31.5 tokens/s`; '' if unknown. */
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
  /** The provider's name. */
  id: string
  name?: string
  /** Tokens. */
  contextLength?: number
  /** Tokens per request as loaded; the catalog may differ. */
  servedContext?: number
  /** Upper bound of what a local server accepts. */
  trainedContext?: number
  maxOutputLength?: number
  inputModalities?: Modality[]
  outputModalities?: Modality[]
  /** Only if complete. */
  supportedFeatures?: Feature[]
  can?: { [Name in Feature]?: boolean }
  /** USD per token. */
  pricing?: PricingItem[]
  options?: RouteSettings
  /** Such as `3.2B`. */
  parameters?: string
  quantization?: string
  sizeBytes?: number
  /** Forwards to a paid service. */
  isElsewhere?: boolean
  /** False for embeddings and the like. */
  canChat?: boolean
  /** Unusable data, as phrases after its name. */
  oddities?: string[]
}
