/**
 * Model servers: how one that runs here is run and stands, what any says of its models, and what is known of those while it runs.
 */
import type { Feature, Modality, RouteSettings } from './models.ts'
import type { PricingItem } from './usage.ts'

/** How a server is run. Its words never leave the file that they stand in and the memory of the server that runs it. */
export interface ProcessSpec {
  /** The program and its arguments, with `{port}`, `{key}` and `{slug}` where those go. */
  command: readonly string[]
  /** What ends it where a signal does not reach it, such as a container; the same places in it. */
  stopCommand: readonly string[] | null
  /** Below its address: answers 200 once it can be asked. */
  health: string
  /** Stopped after so long without a request; null = never. */
  idleMs: number | null
  /** What it takes of the memory of its device; null = as was measured, where that can be. */
  memoryBytes: number | null
  /** Whose memory it takes: a name that the catalogue gives it, or `CPU`; null where memory is of the machine as a whole. */
  device: string | null
  /** Never stopped for another one, nor for being idle. */
  pin: boolean
  /** Loaded with the server, before anybody asks. */
  preload: boolean
  /** How long it may take until it can be asked. */
  startMs: number
  /** Of all that: the database knows it, so that a command runs for the row that was declared with it, and for no other. */
  hash: string
}

/** The device whose memory is the machine's own. */
export const CPU = 'cpu'

/**
 * What model servers together may take of memory, in bytes: of each device by itself; under null, of the machine as a whole. Of what is
 * not in it they take all that they ask for.
 */
export type MemoryBudgets = ReadonlyMap<string | null, number>

/** Of those that files declare, and of the memory for all of them. */
export interface ProcessSpecs {
  byUpstream: ReadonlyMap<string, ProcessSpec>
  memory: MemoryBudgets
}

export const NO_PROCESSES: ProcessSpecs = { byUpstream: new Map(), memory: new Map() }

/** `sleeping`: it runs, and has put its model out of memory by itself. `failed`: it is not tried again just now. */
export const SERVER_STATES = ['stopped', 'loading', 'ready', 'sleeping', 'failed'] as const
export type ServerState = (typeof SERVER_STATES)[number]

/** How a server stands, for administrators. */
export interface ServerStatus {
  state: ServerState
  /** Why it is not running where it should be, in words; null where nothing is wrong. */
  reason: string | null
  pid: number | null
  answering: number
  queued: number
  /** What the plan of memory takes it to need; null where nobody knows yet. */
  memory_bytes: number | null
}

/** How long it may take to load, where nothing is said: a large model from a slow disk. */
export const START_MS = 120_000
export const IDLE_MS = 600_000

/** What is known of a model at a local server while that runs: what it says itself, and what was measured here; null = not known. */
export interface ServedFigures {
  /** Of one request, in tokens. */
  context_length: number | null
  /** How its weights are kept, such as `Q4_K_M`. */
  quantization: string | null
  /** Of the file of those. */
  size_bytes: number | null
  /** How fast an answer was written of late. */
  tokens_per_second: number | null
}

/** In words, such as `4096 tokens of context, Q4_K_M, 2.0 GB, 31.5 tokens a second`; '' where nothing is known. */
export const toFigureText = ({
  context_length: context,
  quantization,
  size_bytes: bytes,
  tokens_per_second: speed,
}: ServedFigures): string =>
  [
    context !== null && `${context} tokens of context`,
    quantization,
    bytes !== null && `${(bytes / 1e9).toFixed(1)} GB`,
    speed !== null && `${speed} tokens a second`,
  ]
    .filter(Boolean)
    .join(', ')

export interface ListedModel {
  /** As the provider is asked for it. */
  id: string
  name?: string
  /** Tokens. */
  contextLength?: number
  /** Tokens of one request, as a server of one's own has it loaded now, however the catalogue has it. */
  servedContext?: number
  /** Tokens that it was trained with, of which a server of one's own takes no more, whatever it is asked for. */
  trainedContext?: number
  maxOutputLength?: number
  inputModalities?: Modality[]
  outputModalities?: Modality[]
  /** All that it can, where the list says that of every feature. */
  supportedFeatures?: Feature[]
  /** Features that it can or cannot; of the others nothing is said. */
  can?: { [Name in Feature]?: boolean }
  /** USD per token. */
  pricing?: PricingItem[]
  /** How it thinks, and what it takes. */
  options?: RouteSettings
  /** How many parameters it has, in its server's words, such as `3.2B`. */
  parameters?: string
  /** How its weights are kept, such as `Q4_K_M`. */
  quantization?: string
  /** Of its file. */
  sizeBytes?: number
  /** Whether a server of one's own has it answered by somebody else, who is paid. */
  isElsewhere?: boolean
  /** False where it is for something else, such as embeddings. */
  canChat?: boolean
  /** What of it could not be used, in words that go on behind its name. */
  oddities?: string[]
}
