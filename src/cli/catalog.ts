/**
 * `tollgate catalog validate | apply`. `validate` needs no database and writes nothing; `apply` works beside a running
 * server, which takes the change within moments.
 */

import { resolve } from 'node:path'
import { applyCatalog, toApplyOptions } from '../catalog/apply.ts'
import { parseCatalog } from '../catalog/file.ts'
import { type CatalogSource, loadSource } from '../catalog/source.ts'
import { ServiceError } from '../domain/service-error.ts'
import { count } from '../domain/words.ts'
import { CommandError } from './command-error.ts'
import { type Context, printJson, version, withStore } from './io.ts'

export async function validate(file: string | undefined, io: Context): Promise<void> {
  const { source, catalog, wildcards, warnings } = await load(file, io).catch((error) => {
    if (io.json && error instanceof ServiceError && error.failure.kind === 'catalog_invalid') {
      const { name, problems } = error.failure
      printJson(io, { valid: false, path: resolve(io.cwd, name), problems })
      throw new CommandError('catalog_invalid', `The catalogue has ${count(problems.length, 'problem')}.`)
    }
    throw error
  })
  const [upstreams, models, aliases] = [catalog.upstreams.length, catalog.models.length, catalog.aliases.length]
  if (io.json) return printJson(io, { valid: true, path: source.path, upstreams, models, aliases, wildcards, warnings })
  const parts = wildcards.map(({ wildcard, models }) => `${models} of ${wildcard}`).join(', ')
  const what = `${count(models, 'model')}${parts && ` (${parts})`}, ${aliases} ${aliases === 1 ? 'alias' : 'aliases'}`
  io.stdout(`${toTitle(source)} is valid: ${count(upstreams, 'upstream')}, ${what}.\n`)
}

export async function apply(file: string | undefined, io: Context): Promise<void> {
  const { source, catalog, warnings } = await load(file, io)
  const options = toApplyOptions(source, version(), { actor: 'cli', nowMs: io.nowMs() })
  const summary = await withStore(io, {}, (store) => applyCatalog(store, catalog, options))
  if (io.json) return printJson(io, { path: source.path, origin: source.origin, ...summary, warnings })
  for (const conflict of summary.conflicts) io.stderr(`conflict: ${conflict}\n`)
  const { created, updated, deleted, unchanged } = summary
  io.stdout(
    created + updated + deleted === 0
      ? `${toTitle(source)}: nothing to change.\n`
      : `${toTitle(source)} applied: ${created} created, ${updated} updated, ${deleted} deleted, ${unchanged} unchanged.\n`,
  )
}

async function load(file: string | undefined, io: Context) {
  const source = await loadSource({ file, dataFolder: io.dataFolder, cwd: io.cwd })
  const parsed = await parseCatalog(source.text, { name: source.name, environment: io.environment })
  if (!io.json) for (const warning of parsed.warnings) io.stderr(`warning: ${warning}\n`)
  return { source, ...parsed }
}

const toTitle = (source: CatalogSource) => source.path ?? 'The built-in catalogue'
