/** Builds, fills in, and checks commands of model servers, and builds their environment. */
import { basename, join } from 'node:path'
import { CPU } from '../domain/model-server.ts'
import type { Environment } from '../domain/snapshot.ts'

export interface Filling {
  port: number
  /** New for each start, so that only Tollgate can call the server. */
  key: string
  /** ID of the first model routed to it. */
  slug: string
}

export const fill = (words: readonly string[], { port, key, slug }: Filling): string[] =>
  words.map((word) =>
    word.replace(/\{port\}|\{key\}|\{slug\}/g, (place) =>
      place === '{port}' ? String(port) : place === '{key}' ? key : slug,
    ),
  )

/** Fields are null if the command doesn't name them. */
interface NamedModel {
  alias: string | null
  file: string | null
}

/** Reads the options of llama-server (llama.cpp, tools/server/README.md). */
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

/** True if llama-server's `/props` name the model of its command; null if unknown. */
export function isNamed(wanted: NamedModel, props: Readonly<Record<string, unknown>>): boolean | null {
  const { model_alias: alias, model_path: path } = props
  if (wanted.alias !== null && typeof alias === 'string' && alias !== '') return alias.split(',').includes(wanted.alias)
  if (wanted.file !== null && typeof path === 'string' && path !== '') return basename(path) === basename(wanted.file)
  return null
}

/** Why a program can't be started and what to do; null if it can. */
export function explainProgram(program: string, path: string): string | null {
  if (Bun.which(program, { PATH: path }) !== null) return null
  return program.includes('/')
    ? `program ${program} doesn't exist or isn't executable by this user; correct the path in \`process\` or install it`
    : `program ${program} is not on the server's PATH; install it or use its full path in \`process\``
}

/** Our environment contains credentials, so nothing else is passed on. */
const PASSED =
  /^(PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_\w+|TZ|TMPDIR|XDG_\w+|LD_LIBRARY_PATH|DYLD_\w+|CUDA_\w+|NVIDIA_\w+|HIP_\w+|ROCR_\w+|HSA_\w+|GGML_\w+|LLAMA_\w+|VK_\w+|HF_HOME|HF_HUB_\w+|VLLM_\w+|OMP_\w+|DOCKER_\w+)$/

/** NVIDIA_API_KEY is a provider credential despite its prefix. */
const SECRET = /_(KEY|TOKEN|SECRET|PASSWORD|AUTH_CONFIG)$/

export const KEY_VARIABLE = 'LLAMA_API_KEY'
/** Marks processes with the Tollgate data folder that started them. */
export const OWNER_VARIABLE = 'TOLLGATE_SERVERS_OF'

/** Includes the key, so that it need not be in the command. @param owner identifies the data folder; null for none. */
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

/** The server's PATH starts with the data folder's `engines/`. */
export const LLAMA_SERVER = 'llama-server'

interface Serving {
  model: string
  projector: string | null
  context: number
  slots: number
  cores: number
  makesEmbeddings: boolean
  /** A name from `--list-devices`, or `cpu`; null lets the engine choose. */
  device: string | null
}

/** Prompt tokens between two checks for disconnected clients, so that a canceled long prompt ends soon. */
const BATCH = 512

/**
 * Sets slots and context explicitly: by default, concurrent requests share one context and fail together. The key is in
 * the environment, where process lists don't show it.
 */
export function toCommand({ model, projector, context, slots, cores, makesEmbeddings, device }: Serving): string[] {
  // An embedding input must fit into one batch.
  const batch = makesEmbeddings ? ['--embeddings', '-b', `${context}`, '-ub', `${context}`] : ['-b', `${BATCH}`]
  const [before, offload] = toPlace(device, projector !== null)
  return [
    ...[...before, LLAMA_SERVER, '-m', model, ...(projector === null ? [] : ['--mmproj', projector]), ...offload],
    ...['--host', '127.0.0.1', '--port', '{port}', '--alias', '{slug}', '--jinja', '--offline', '--no-ui'],
    // Leaves one core for Tollgate.
    ...['-np', `${slots}`, '-c', `${slots * context}`, ...batch, '-t', `${Math.max(1, cores - 1)}`],
    ...['--metrics', '-lv', '4'],
  ]
}

/**
 * Device options before and after the program. A projector ignores `--device` and uses the first GPU
 * (https://github.com/ggml-org/llama.cpp/issues/15804); builds before `--mmproj-device` read its device from the
 * environment.
 */
function toPlace(device: string | null, hasProjector: boolean): [before: string[], options: string[]] {
  if (device === null) return [[], []]
  if (device === CPU) return [[], ['--device', 'none', ...(hasProjector ? ['--no-mmproj-offload'] : [])]]
  return [hasProjector ? ['env', `MTMD_BACKEND_DEVICE=${device}`] : [], ['--device', device]]
}

export const enginesFolder = (dataFolder: string) => join(dataFolder, 'engines')

/** A symbolic link, so that a switch is one rename. */
export const currentEngine = (dataFolder: string) => join(enginesFolder(dataFolder), 'current')

export function withEngines(environment: Environment, dataFolder: string): Environment {
  const path = environment.PATH ?? ''
  return { ...environment, PATH: [currentEngine(dataFolder), ...(path === '' ? [] : [path])].join(':') }
}

/** Full path; null if not found. */
export const findEngine = (dataFolder: string, environment: Environment): string | null =>
  Bun.which(LLAMA_SERVER, { PATH: withEngines(environment, dataFolder).PATH ?? '' })
