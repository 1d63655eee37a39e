/** What is said over `control.sock` beside the admin API: its path, the shapes of its answers. Never a secret. Types, for both ends. */
import { join } from 'node:path'
import type { DiskState, ServerReadiness } from '../documents/server.ts'
import type { UpstreamStatus } from '../documents/upstream.ts'

/** Path of the socket in a data folder. It may be longer than the 107 bytes of the system's call: Bun goes around that. */
export const socketPath = (dataFolder: string) => join(dataFolder, 'control.sock')

/**
 * `limit`: most files that the process may have open; null where that is not known. `max_in_flight`: requests that are taken at
 * once, which may be fewer than the wanted ones of `--max-in-flight`: each takes two files, its client's and its upstream's.
 */
export interface FileLimit {
  limit: number | null
  max_in_flight: number
  wanted_in_flight: number
}

/** Answer of `GET /status`. */
export interface Status {
  version: string
  /** Id of this run of the server: a part of the names of its journal's files, and in its ledger rows. */
  instance: string
  pid: number
  /** Ends in `/v1`. */
  url: string
  started_ms: number
  readiness: ServerReadiness
  /** `behind`: the oldest row has waited for the database for 10 s; `unavailable`: the journal takes no new requests. */
  ledger: 'ok' | 'behind' | 'unavailable'
  /** What of the data folder is gone, or no longer what the server writes to. */
  lost: 'database' | 'journal' | null
  /** How full the disk is; null before it was measured. */
  disk: DiskState | null
  config_revision: number
  /** `every_ms`: 0 = none is scheduled; `failed`: why the last one could not be made. */
  backups: { every_ms: number; failed: string | null }
  /** Why requests are refused for want of room, or were within the last seconds; null where none is. */
  full: string | null
  /** Requests under way. */
  in_flight: number
  /** Bytes of bodies and answers that are held in memory for them. */
  buffered_bytes: number
  files: FileLimit
  /** A proxy that forwards requests and is not one of --trusted-proxy, by its address; null where none was seen. */
  untrusted_proxy: string | null
  upstreams: UpstreamStatus[]
}

/** Answer of `POST /ledger/flush`: ledger records that the database has taken now, and those that it has not. */
export interface Flushed {
  applied: number
  waiting: number
}
