/**
 * What a command may touch of the world around it, and the two things that every command says about it: where the data
 * are and whether the answer is JSON. Light on purpose: `serve` and `version` load it before anything else.
 */
import { resolve } from 'node:path'
import type { Command } from 'commander'
import type { Environment } from '../domain/snapshot.ts'

export interface Io {
  /** Both take text as it is; the caller ends its own lines. */
  stdout(text: string): void
  stderr(text: string): void
  environment: Environment
  nowMs(): number
  cwd: string
}

/** Options of the program itself; they may stand before or after a command's name. */
export interface SharedOptions {
  data?: string
  json?: boolean
}

export const sharedOptions = (command: Command): SharedOptions => command.optsWithGlobals<SharedOptions>()

/** The data folder's full path: `--data`, else TOLLGATE_DATA, else ./tollgate_data. */
export function toDataFolder(command: Command, io: Io): string {
  return resolve(io.cwd, sharedOptions(command).data || io.environment.TOLLGATE_DATA || 'tollgate_data')
}

/** Prints one JSON document. */
export function printJson(io: Io, document: unknown): void {
  io.stdout(`${JSON.stringify(document, null, 2)}\n`)
}
