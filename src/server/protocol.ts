/** What is said over `control.sock` beside the admin API: its path, the shapes of its answers. Never a secret. Types, for both ends. */
import { join } from 'node:path'
import type { StatusDocument } from '../documents/server.ts'
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
export interface Status extends Omit<StatusDocument, 'pending_records' | 'backups' | 'checks'> {
  /** Id of this run of the server: a part of the names of its journal's files, and in its ledger rows. */
  instance: string
  pid: number
  config_revision: number
  backups: Pick<StatusDocument['backups'], 'every_ms' | 'failed'>
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
