import { join } from 'node:path'
import type { StatusDocument } from '../documents/server.ts'
import type { UpstreamStatus } from '../documents/upstream.ts'
import { asObject } from '../domain/json.ts'

/** May exceed the system's limit of 107 bytes, which Bun works around. */
export const socketPath = (dataFolder: string) => join(dataFolder, 'control.sock')

/**
 * `limit` of open files; null if unknown. `max_in_flight` may be lower than `--max-in-flight` (`wanted_in_flight`):
 * each request takes two files, for its client and its upstream.
 */
export interface FileLimit {
  limit: number | null
  /** Number of answering processes, each with this limit; 1 by default. */
  processes?: number
  max_in_flight: number
  wanted_in_flight: number
}

export interface Status extends Omit<StatusDocument, 'pending_records' | 'backups' | 'checks'> {
  /** ID of this run, in its ledger rows and the names of its journal files. */
  instance: string
  pid: number
  config_revision: number
  backups: Pick<StatusDocument['backups'], 'every_ms' | 'failed'>
  files: FileLimit
  /** IP address of a proxy that forwards requests but isn't in --trusted-proxy; null if none was seen. */
  untrusted_proxy: string | null
  upstreams: UpstreamStatus[]
}

/** Response of `POST /admin/code`. */
export interface SetupLink {
  code: string
  /** Null without a dashboard. */
  url: string | null
}

/** Response of `POST /ledger/flush`: records written to the database, and pending ones. */
export interface FlushResult {
  applied: number
  waiting: number
}

/** Body of `POST /restart`. */
export interface RestartOptions {
  /** Flags of `serve`; null for the running server's flags. */
  flags: readonly string[] | null
  /** Null for the running server's environment. */
  environment: Readonly<Record<string, string>> | null
}

/** Reads the body, which is from the owner's command. */
export function toRestartOptions(body: unknown): RestartOptions {
  const { flags, environment } = asObject(body) ?? {}
  return {
    flags: Array.isArray(flags) ? flags.map(String) : null,
    environment:
      asObject(environment) &&
      Object.fromEntries(Object.entries(environment ?? {}).map(([name, value]) => [name, String(value)])),
  }
}

/** The process that serves from now on. */
export interface Restarted {
  pid: number
  url: string
  version: string
}
