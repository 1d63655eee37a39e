/**
 * The words of commands by which model servers run: those for a llama-server of ours and where that is, what goes into their places, what they
 * say of the model, what is wrong with them, and in which environment they run.
 */
import { basename, join } from 'node:path'
import { CPU } from '../domain/model-server.ts'
import type { Environment } from '../domain/snapshot.ts'

/** What goes into the places of a command. */
export interface Filling {
  port: number
  /** Made anew for each start: the server is to let in nobody else. */
  key: string
  /** Of the first model that leads to it. */
  slug: string
}

export const fill = (words: readonly string[], { port, key, slug }: Filling): string[] =>
  words.map((word) =>
    word.replace(/\{port\}|\{key\}|\{slug\}/g, (place) =>
      place === '{port}' ? String(port) : place === '{key}' ? key : slug,
    ),
  )

/** What a command says of the model that its server has; null where it does not. */
interface NamedModel {
  alias: string | null
  file: string | null
}

/** Reads the options by which llama-server and its like are told (llama.cpp, tools/server/README.md). */
export const toNamedModel = (words: readonly string[]): NamedModel => ({
  alias: optionOf(words, '--alias', '-a'),
  file: optionOf(words, '--model', '-m'),
})

function optionOf(words: readonly string[], ...names: string[]): string | null {
  for (const [index, word] of words.entries()) {
    if (names.includes(word)) return words[index + 1] ?? null
    const name = names.find((each) => word.startsWith(`${each}=`))
    if (name !== undefined) return word.slice(name.length + 1)
  }
  return null
}

/** Whether what a server says of its model (`/props` of llama-server) is what its command says; null where nothing can be compared. */
export function isNamed(wanted: NamedModel, props: Readonly<Record<string, unknown>>): boolean | null {
  const { model_alias: alias, model_path: path } = props
  if (wanted.alias !== null && typeof alias === 'string' && alias !== '') return alias.split(',').includes(wanted.alias)
  if (wanted.file !== null && typeof path === 'string' && path !== '') return basename(path) === basename(wanted.file)
  return null
}

/** Why the program of a command cannot be started, in a sentence that says what to do; null where it can. */
export function explainProgram(program: string, path: string): string | null {
  if (Bun.which(program, { PATH: path }) !== null) return null
  return program.includes('/')
    ? `there is no program ${program}, or this user may not run it: correct the path in its process, or install it`
    : `there is no program ${program} on the PATH of the server: install it, or write its full path in its process`
}

/** Of our own environment no more: it has the credentials of providers. */
const PASSED =
  /^(PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_\w+|TZ|TMPDIR|XDG_\w+|LD_LIBRARY_PATH|DYLD_\w+|CUDA_\w+|NVIDIA_\w+|HIP_\w+|ROCR_\w+|HSA_\w+|GGML_\w+|LLAMA_\w+|VK_\w+|HF_HOME|HF_HUB_\w+|VLLM_\w+|OMP_\w+|DOCKER_\w+)$/

/** NVIDIA_API_KEY is a provider's, though it begins as settings of graphics cards do. */
const SECRET = /_(KEY|TOKEN|SECRET|PASSWORD|AUTH_CONFIG)$/

/** Where what is started for a server has its key. */
export const KEY_VARIABLE = 'LLAMA_API_KEY'
/** Where it says whose it is. */
export const OWNER_VARIABLE = 'TOLLGATE_SERVERS_OF'

/**
 * The environment of a server. Engines that read their key there have it, so that it need not stand among the words.
 * @param owner whose servers they are; null where that is nobody's concern.
 */
export function toServerEnvironment(
  own: Readonly<Record<string, string | undefined>>,
  key: string,
  owner: string | null,
): Record<string, string> {
  const passed = Object.entries(own).flatMap(([name, value]): [string, string][] =>
    value !== undefined && PASSED.test(name) && !SECRET.test(name) ? [[name, value]] : [],
  )
  return {
    ...Object.fromEntries(passed),
    ...{ [KEY_VARIABLE]: key, VLLM_API_KEY: key },
    ...(owner === null ? {} : { [OWNER_VARIABLE]: owner }),
  }
}

/** What the command of an upstream calls the engine: looked up on the PATH of the server, which begins with `engines/` of its data. */
export const LLAMA_SERVER = 'llama-server'

interface Serving {
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
