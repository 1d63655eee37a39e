/** What several checks of `tollgate doctor` have to say. */
import { type Check, problem } from '../documents/checks.ts'
import { messageOf } from '../domain/error.ts'

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

const MIB = 1024 ** 2
const GIB = 1024 ** 3

/** In the units that settings such as `--disk 10G` are given in. */
export const toSize = (bytes: number) =>
  bytes >= GIB ? `${(bytes / GIB).toFixed(1)} GiB` : `${(bytes / MIB).toFixed(1)} MiB`
