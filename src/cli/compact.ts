/** `tollgate compact`: gives the empty room of the database back to the disk. Only without a server. */
import { compactDatabase } from '../store/sqlite/compact.ts'
import { toSize } from './doctor-check.ts'
import { type Context, printJson, withStore } from './io.ts'

export function compact(io: Context): Promise<void> {
  return withStore(io, {}, (_, sqlite) => {
    const compacted = compactDatabase(sqlite, io.dataFolder)
    if (io.json) return printJson(io, compacted)
    const { before_bytes: before, after_bytes: after } = compacted
    io.stdout(`The database was ${toSize(before)} and is ${toSize(after)}; from now on it gets shorter by itself.\n`)
  })
}
