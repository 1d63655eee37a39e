/** How llama-server is run for a model of ours. Its options: https://github.com/ggml-org/llama.cpp/tree/master/tools/server. Pure. */

import { CPU } from '../domain/model-server.ts'

/** What the command of an upstream calls the engine: looked up on the PATH of the server, which begins with `engines/` of its data. */
export const LLAMA_SERVER = 'llama-server'

export interface Serving {
  /** Full paths. */
  model: string
  projector: string | null
  /** Tokens of one request. */
  context: number
  /** Requests at a time. */
  slots: number
  /** Of the machine. */
  cores: number
  makesEmbeddings: boolean
  /** One of those that `--list-devices` names, or `cpu`; null = what the engine chooses. */
  device: string | null
}

/** Tokens worked on between two looks at who has left: a request that was given up in a long prompt ends that soon. */
const BATCH = 512

/**
 * The words of the command, with the places that each start fills in. Slots and context are said: without them those of several
 * clients share one context, and fail together. The key is in the environment, where no list of processes shows it.
 */
export function toCommand({ model, projector, context, slots, cores, makesEmbeddings, device }: Serving): string[] {
  // A text that becomes a vector is worked on in one piece.
  const batch = makesEmbeddings ? ['--embeddings', '-b', `${context}`, '-ub', `${context}`] : ['-b', `${BATCH}`]
  const [before, offload] = toPlace(device, projector !== null)
  return [
    ...[...before, LLAMA_SERVER, '-m', model, ...(projector === null ? [] : ['--mmproj', projector]), ...offload],
    ...['--host', '127.0.0.1', '--port', '{port}', '--alias', '{slug}', '--jinja', '--offline', '--no-ui'],
    // One core stays for whoever hands its answers on.
    ...['-np', `${slots}`, '-c', `${slots * context}`, ...batch, '-t', `${Math.max(1, cores - 1)}`],
    ...['--metrics', '-lv', '4'],
  ]
}

/**
 * How the engine is told where the model goes, before its name and after. A projector does not follow `--device`: unsaid, it goes to the
 * first card (https://github.com/ggml-org/llama.cpp/issues/15804); builds before `--mmproj-device` read that from the environment.
 */
function toPlace(device: string | null, hasProjector: boolean): [before: string[], options: string[]] {
  if (device === null) return [[], []]
  if (device === CPU) return [[], ['--device', 'none', ...(hasProjector ? ['--no-mmproj-offload'] : [])]]
  return [hasProjector ? ['env', `MTMD_BACKEND_DEVICE=${device}`] : [], ['--device', device]]
}
