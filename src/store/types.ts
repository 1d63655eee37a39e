/** The vocabulary that the tables and everything above them share. Types and constants only. */

/** Where a row of configuration came from. A stronger origin is never overwritten by a weaker one. */
export const ORIGINS = ['builtin', 'discovered', 'file', 'admin'] as const
export type Origin = (typeof ORIGINS)[number]

export const PERIODS = ['day', 'week', 'month', 'total'] as const
export type Period = (typeof PERIODS)[number]

/** How long a call to an upstream may take, in ms (design 8). A whole answer has only `totalWhole`. */
export interface Deadlines {
  headers: number
  firstToken: number
  idle: number
  total: number
  totalWhole: number
}

export const DEFAULT_DEADLINES: Deadlines = {
  headers: 60_000,
  firstToken: 300_000,
  idle: 120_000,
  total: 3_600_000,
  totalWhole: 600_000,
}

/** A local server may load a model before it sends its headers. */
export const LOCAL_HEADERS_MS = 300_000

/** Per-upstream settings beyond where and how to reach it. */
export interface UpstreamOptions {
  /** Command of a managed process, and whatever later dialects need. */
  process?: { command: string[] }
  /** Demo backend only: pause between two chunks, in ms. */
  pace_ms?: number
}
