/** Where the programs are that serve models: `engines/` of the data folder first, then the PATH. */
import { join } from 'node:path'
import type { Environment } from '../domain/snapshot.ts'
import { LLAMA_SERVER } from './command.ts'

/** Of the data folder. */
export const enginesFolder = (dataFolder: string) => join(dataFolder, 'engines')

/** A link to the folder of the one in use: changing it is one renaming. */
export const currentEngine = (dataFolder: string) => join(enginesFolder(dataFolder), 'current')

/** The environment in which commands of model servers are looked up and run. */
export function withEngines(environment: Environment, dataFolder: string): Environment {
  const path = environment.PATH ?? ''
  return { ...environment, PATH: [currentEngine(dataFolder), ...(path === '' ? [] : [path])].join(':') }
}

/** The full path of the llama-server that would be run; null where there is none. */
export const findEngine = (dataFolder: string, environment: Environment): string | null =>
  Bun.which(LLAMA_SERVER, { PATH: withEngines(environment, dataFolder).PATH ?? '' })
