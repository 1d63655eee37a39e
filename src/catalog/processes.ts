/**
 * The commands of model servers: read where a server of this machine is told them, and nowhere else: in the file that `--catalog`
 * names, and in `<data>/models.d/*.yaml`. The database has the hash of each; without these words nothing is run for it. So no
 * restore, no version that is brought back, and nobody over the network brings a command.
 */
import { stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { ProcessSpec, ProcessSpecs } from '../domain/model-server.ts'
import { parseText } from './document.ts'
import { type Entry, toEntry } from './entry.ts'
import { toMemoryBudgets } from './memory.ts'
import { toProcessSpec } from './process.ts'
import type { CatalogSource } from './source.ts'

export interface LoadedProcesses {
  specs: ProcessSpecs
  /** Sentences about files whose commands do not count. */
  ignored: string[]
}

/**
 * Reads the commands of a source that was found. What of it does not hold together has failed to apply, so that no row has its hash.
 * @param isNamed whether somebody has named its file.
 */
export async function loadProcesses(source: CatalogSource, isNamed: boolean): Promise<LoadedProcesses> {
  const byUpstream = new Map<string, ProcessSpec>()
  const ignored: string[] = []
  const main = source.text === null ? {} : await read(source.text)
  const own = commandsOf(main)
  if (isNamed) take(own, byUpstream)
  else if (own.length > 0)
    ignored.push(
      `${source.path}: the commands of ${own.map(([id]) => id).join(', ')} are not run: name this file with --catalog.`,
    )
  let memory = toMemoryBudgets(main.memory)
  for (const { path, text } of source.modelFiles) {
    const entries = await read(text)
    if (memory.size === 0) memory = toMemoryBudgets(entries.memory)
    // Whoever may write a folder may put another one, or another file, in the place of what is in it.
    const why = (await Promise.all([dirname(dirname(path)), dirname(path), path].map(toDoubt))).find((why) => why)
    if (why) ignored.push(`${path}: its commands are not run: ${why}`)
    else take(commandsOf(entries), byUpstream)
  }
  return { specs: { byUpstream, memory }, ignored }
}

const read = async (text: string): Promise<Entry> => toEntry((await parseText(text)).raw)

const commandsOf = (root: Entry): [string, Entry][] =>
  Object.entries(toEntry(root.upstreams))
    .map(([id, entry]): [string, Entry] => [id, toEntry(entry)])
    .filter(([, entry]) => Array.isArray(entry.process))

function take(commands: readonly [string, Entry][], byUpstream: Map<string, ProcessSpec>): void {
  for (const [id, entry] of commands) byUpstream.set(id, toProcessSpec(entry))
}

/** Why somebody else than the user of this process, or root, may have written it; null where nobody can have. */
async function toDoubt(path: string): Promise<string | null> {
  const { mode, uid } = await stat(path)
  const user = process.geteuid?.() ?? uid
  if (uid !== user && uid !== 0)
    return `${path} belongs to user ${uid}. Run the server as that user, or chown ${user} ${path}`
  return (mode & 0o022) === 0 ? null : `others may write ${path}. chmod go-w ${path}`
}
