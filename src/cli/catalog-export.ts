/** `tollgate catalog export`: the catalogue as the database has it, as a file that says the same. Only reads the database. */
import { existsSync, renameSync, rmSync } from 'node:fs'
import { resolve } from 'node:path'
import { type Exported, exportCatalog } from '../catalog/export.ts'
import { codeOf, messageOf } from '../domain/error.ts'
import { count } from '../domain/text.ts'
import { CommandError } from './command-error.ts'
import { type Context, printJson, toPrintable, withStore } from './io.ts'

/** @param file where to write it; standard output without one. */
export async function exportTo(file: string | undefined, { force = false }: { force?: boolean }, io: Context) {
  const path = file === undefined ? null : resolve(io.cwd, file)
  if (path !== null && !force && existsSync(path))
    throw new CommandError(
      'file_exists',
      `There is a file ${path} already. Name another file, or have it replaced with --force.`,
    )
  const exported = await withStore(io, { readonly: true }, exportCatalog)
  const { document, leftOut, sealed } = exported
  const warnings = toWarnings(exported)
  if (path !== null) await write(path, exported.text)
  const [upstreams, models] = [Object.keys(document.upstreams).length, Object.keys(document.models).length]
  const aliases = Object.keys(document.aliases ?? {}).length
  if (path !== null && io.json)
    return printJson(io, { path, upstreams, models, aliases, left_out: leftOut, sealed, warnings })
  for (const warning of warnings) io.stderr(`warning: ${toPrintable(warning)}\n`)
  // A catalogue may be written as JSON, too.
  if (path === null) return io.json ? printJson(io, document) : io.stdout(exported.text)
  const what = `${count(upstreams, 'upstream')}, ${count(models, 'model')}, ${aliases} ${aliases === 1 ? 'alias' : 'aliases'}`
  io.stdout(`${path} says what the database says: ${what}.\n`)
}

function toWarnings({ leftOut, sealed }: Exported): string[] {
  return [
    ...leftOut.map(({ name, reason }) => `${name} is left out: ${reason}`),
    ...sealed.map(
      (id) => `upstreams.${id}: its credential was typed in and is not written: name a variable that has it.`,
    ),
  ]
}

/** Whole or not at all: what is replaced stays until then. */
async function write(path: string, text: string): Promise<void> {
  const unfinished = `${path}.${process.pid}.tmp`
  try {
    await Bun.write(unfinished, text, { createPath: false })
    renameSync(unfinished, path)
  } catch (cause) {
    rmSync(unfinished, { force: true })
    throw new CommandError(
      'file_unwritable',
      `Cannot write ${path}: ${codeOf(cause) || messageOf(cause)}. Name another file.`,
    )
  }
}
