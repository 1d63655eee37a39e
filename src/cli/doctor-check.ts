/** One finding of `tollgate doctor`: how it is made, and what several of them have to say. */
import { messageOf } from '../domain/error.ts'

export interface Check {
  name: string
  status: 'ok' | 'warning' | 'problem'
  /** What was found and, where it is not well, what to do. */
  message: string
}

export const ok = (name: string, message: string): Check => ({ name, status: 'ok', message })
export const warning = (name: string, message: string): Check => ({ name, status: 'warning', message })
export const problem = (name: string, message: string): Check => ({ name, status: 'problem', message })

/** Runs checks of something that may be broken in ways that they do not expect. */
export async function guarded(name: string, look: () => Check[] | Promise<Check[]>): Promise<Check[]> {
  try {
    return await look()
  } catch (error) {
    return [problem(name, `This check failed: ${messageOf(error).replace(/\.$/, '')}.`)]
  }
}

/** Says that a path is not there yet, and how it comes about. */
export const toMissing = (path: string, dataFolder: string) =>
  `There is no ${path} yet. Start the server once (tollgate serve --data ${dataFolder}), or name another folder with --data.`

/** Names the first five, and how many there are besides. */
export const toFew = (names: readonly string[]) =>
  `${names.slice(0, 5).join(', ')}${names.length > 5 ? ` and ${names.length - 5} more` : ''}`

const MIB = 1024 ** 2
const GIB = 1024 ** 3

/** In the units that settings such as `--disk 10G` are given in. */
export const toSize = (bytes: number) =>
  bytes >= GIB ? `${(bytes / GIB).toFixed(1)} GiB` : `${(bytes / MIB).toFixed(1)} MiB`
