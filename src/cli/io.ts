/**
 * What a command may touch of the world around it, and the two things that every command says about it: where the data
 * are and whether the answer is JSON. Light on purpose: `serve` and `version` load it before anything else.
 */
import type { Database } from 'bun:sqlite'
import { resolve } from 'node:path'
import type { Command } from 'commander'
import type { Environment } from '../domain/snapshot.ts'
import type { ConfigStore } from '../store/config-store.ts'

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

/** Opens the database of the data folder, if there is one, and closes it when the work is done. */
export async function withStore<T>(
  command: Command,
  io: Io,
  options: { readonly?: boolean },
  work: (store: ConfigStore, sqlite: Database) => Promise<T>,
): Promise<T> {
  const { openForCommand } = await import('../store/sqlite/open.ts')
  const { sqlite, store } = openForCommand(toDataFolder(command, io), options)
  try {
    return await work(store, sqlite)
  } finally {
    sqlite.close()
  }
}

/** Prints one JSON document. */
export function printJson(io: Io, document: unknown): void {
  io.stdout(`${JSON.stringify(document, null, 2)}\n`)
}
