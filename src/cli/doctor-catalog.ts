/** What `doctor` says of the catalogue's file: whether a server that starts, or reloads, would take it, and whether one has. */
import { isApplied, toDigest } from '../catalog/apply.ts'
import { loadSource } from '../catalog/source.ts'
import { type Check, ok, warning } from '../documents/checks.ts'
import { ServiceError } from '../domain/service-error.ts'
import { count } from '../domain/text.ts'
import type { Settings } from '../store/config-store.ts'
import { type Context, version } from './io.ts'
import { toCatalogFile } from './words/serve.ts'

/** Looks where a server of this folder and this environment looks; whether one was told of another file nobody knows here. */
export async function checkCatalogFile(settings: Settings, io: Context): Promise<Check[]> {
  const { dataFolder, cwd, environment } = io
  const name = 'catalog_file'
  try {
    const source = await loadSource({ file: toCatalogFile(undefined, io), dataFolder, cwd })
    const { path } = source
    if (path === null) return []
    if (isApplied(settings, toDigest(source, version()))) return [ok(name, `${path} is what was applied last.`)]
    // As at a start: one that is applied already needs no reader of YAML.
    const { parseSource } = await import('../catalog/file.ts')
    await parseSource({ ...source, name: path }, environment)
    const plan = `tollgate catalog plan ${path}`
    return [ok(name, `${path} is valid, and not what was applied last. What it would change: ${plan}`)]
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    return [warning(name, toTrouble(error))]
  }
}

const EFFECT = 'A server that runs goes on as it is, and none starts with it.'

function toTrouble({ failure, message }: ServiceError): string {
  if (failure.kind !== 'catalog_invalid') return `${message} ${EFFECT}`
  const { name, problems } = failure
  return `${name} has ${count(problems.length, 'problem')}. ${EFFECT} See them with: tollgate catalog validate ${name}`
}
