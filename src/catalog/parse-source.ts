/**
 * A catalogue and the files of models beside it (`<data>/models.d/*.yaml`), read as one: each is whole in itself, and none declares
 * what another does; the first that says something of memory says it for all. Called by `serve` and by the catalogue commands.
 */
import { ServiceError } from '../domain/service-error.ts'
import type { Environment } from '../domain/snapshot.ts'
import type { Catalog } from './complete.ts'
import { type ParsedCatalog, parseCatalog } from './file.ts'
import { explainDevice } from './memory.ts'
import { type CatalogSource, MODELS_FOLDER, type ModelFile } from './source.ts'

/** Parses a catalogue with the files of models beside it. Throws a ServiceError of kind `catalog_invalid`. */
export async function parseSource(
  { name, text, modelFiles }: Pick<CatalogSource, 'name' | 'text' | 'modelFiles'>,
  environment: Environment,
): Promise<ParsedCatalog> {
  let all = text === null ? NOTHING : await parseCatalog(text, { name, environment })
  const files = [{ name, devices: all.devices }]
  for (const file of modelFiles) {
    const parsed = await parseCatalog(file.text, { name: file.name, environment })
    requireNew(all.catalog, parsed.catalog, file)
    files.push({ name: file.name, devices: parsed.devices })
    all = {
      catalog: {
        upstreams: [...all.catalog.upstreams, ...parsed.catalog.upstreams],
        models: [...all.catalog.models, ...parsed.catalog.models],
        aliases: [...all.catalog.aliases, ...parsed.catalog.aliases],
      },
      memory: all.memory.size > 0 ? all.memory : parsed.memory,
      devices: [...all.devices, ...parsed.devices],
      wildcards: [...all.wildcards, ...parsed.wildcards],
      warnings: [...all.warnings, ...parsed.warnings],
    }
  }
  for (const file of files) requireDevices(all, file)
  return all
}

/** Parses files of models alone. Throws as above. */
export const parseModelFiles = ({ modelFiles }: Pick<CatalogSource, 'modelFiles'>, environment: Environment) =>
  parseSource({ name: MODELS_FOLDER, text: null, modelFiles }, environment)

const NOTHING: ParsedCatalog = {
  ...{ catalog: { upstreams: [], models: [], aliases: [] }, memory: new Map(), devices: [] },
  ...{ wildcards: [], warnings: [] },
}

interface OfFile {
  name: string
  devices: ParsedCatalog['devices']
}

/** What a file says of devices must be so by the memory that another one has. */
function requireDevices({ memory }: ParsedCatalog, { name, devices }: OfFile): void {
  const problems = devices.flatMap(([id, device]) => {
    const message = explainDevice(memory, device)
    return message === null ? [] : [{ line: 1, path: `upstreams.${id}.device`, message }]
  })
  refuse(name, problems)
}

function requireNew(before: Catalog, added: Catalog, { name }: ModelFile): void {
  const namesOf = ({ upstreams, models, aliases }: Catalog) => [
    ...upstreams.map(({ id }) => `upstreams.${id}`),
    ...models.map(({ slug }) => `models.${slug}`),
    ...aliases.map(({ alias }) => `aliases.${alias}`),
  ]
  const known = new Set(namesOf(before))
  const problems = namesOf(added)
    .filter((path) => known.has(path))
    .map((path) => ({ line: 1, path, message: 'is declared in another file, too: remove it from one of them.' }))
  refuse(name, problems)
}

/** Throws where there are problems in a file. */
function refuse(name: string, problems: { line: number; path: string; message: string }[]): void {
  if (problems.length === 0) return
  const lines = problems.map(({ path, message }) => `${name}: ${path} ${message}`)
  throw new ServiceError(
    { kind: 'catalog_invalid', name, problems },
    [`The catalogue has ${problems.length === 1 ? 'one problem' : `${problems.length} problems`}:`, ...lines].join(
      '\n',
    ),
  )
}
