/** A model server that runs here, as a catalogue declares it, and how it stands. Types and constants only. */

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
  waiting: number
  /** What the plan of memory takes it to need; null where nobody knows yet. */
  memory_bytes: number | null
}

/** How long it may take to load, where nothing is said: a large model from a slow disk. */
export const START_MS = 120_000
export const IDLE_MS = 600_000
