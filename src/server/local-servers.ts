/**
 * Looks which model servers answer on this machine, at their usual ports, for whoever offers to add them: commands, and the dashboard.
 * What answers may be anything: it is known by words that only such a server says, to questions that load nothing, in little time and
 * few bytes.
 */
import { request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import type { LocalServer } from '../catalog/providers.ts'
import { asList, asObject, asText, parseJson } from '../domain/json.ts'
import { findPreset } from '../store/presets.ts'

interface Identity {
  /** Below the address without its `/v1`. */
  path: string
  isIt(json: unknown): boolean
}

/** Three say who they are in their lists; the other two have questions of their own. */
const IDENTITIES: Readonly<Record<string, Identity>> = {
  ollama: { path: '/api/tags', isIt: (json) => Array.isArray(asObject(json)?.models) },
  'llama.cpp': { path: '/v1/models', isIt: (json) => isOwnedBy(json, 'llamacpp') },
  vllm: { path: '/v1/models', isIt: (json) => isOwnedBy(json, 'vllm') },
  'llama-swap': { path: '/v1/models', isIt: (json) => isOwnedBy(json, 'llama-swap') },
  lmstudio: {
    path: '/api/v1/models',
    isIt: (json) => asList(asObject(json)?.models).some((each) => asText(asObject(each)?.key) !== ''),
  },
}

const isOwnedBy = (json: unknown, owner: string) =>
  asList(asObject(json)?.data).some((each) => asObject(each)?.owned_by === owner)

export interface LookOptions {
  /** Addresses to look at in place of the usual ones. */
  at?: readonly string[]
  /** For all of it. */
  ms?: number
  /** Of one answer. */
  bytes?: number
}

/** Resolves to those that were found, within a second. Never throws. */
export async function findLocalServers({
  at,
  ms = 1_000,
  bytes = 1_048_576,
}: LookOptions = {}): Promise<LocalServer[]> {
  const signal = AbortSignal.timeout(ms)
  const look = async (preset: string, { path, isIt }: Identity, origin: string): Promise<LocalServer[]> => {
    const { name = preset, base_url = '' } = findPreset(preset) ?? {}
    try {
      const text = await read(new URL(`${origin}${path}`), bytes, signal)
      if (text === null || !isIt(parseJson(text))) return []
    } catch {
      return []
    }
    return [{ preset, name, baseUrl: origin + new URL(base_url).pathname.replace(/\/$/, '') }]
  }
  const looks = Object.entries(IDENTITIES).flatMap(([preset, identity]) => {
    const usual = new URL(findPreset(preset)?.base_url ?? '').origin
    return (at?.map(toOrigin) ?? [usual]).map((origin) => look(preset, identity, origin))
  })
  return (await Promise.all(looks)).flat()
}

/** Not by `fetch`: a proxy would answer from its own machine. Null for another status than 200, and for what is longer. */
function read(url: URL, bytes: number, signal: AbortSignal): Promise<string | null> {
  const { promise, resolve, reject } = Promise.withResolvers<string | null>()
  const headers = { accept: 'application/json', 'user-agent': 'tollgate', connection: 'close' }
  const request = url.protocol === 'https:' ? requestHttps : requestHttp
  const asked = request(url, { headers, agent: false }, (response) => {
    const pieces: Buffer[] = []
    let length = 0
    const isLeft = () => response.statusCode !== 200 || length > bytes
    if (isLeft()) resolve(null)
    response.on('data', (piece: Buffer) => {
      length += piece.length
      if (!isLeft()) pieces.push(piece)
      else resolve(null)
    })
    response.on('end', () => resolve(Buffer.concat(pieces).toString()))
    response.on('error', reject)
  })
  asked.on('error', reject)
  const leave = () => reject(signal.reason)
  signal.addEventListener('abort', leave)
  asked.end()
  return promise.finally(() => {
    signal.removeEventListener('abort', leave)
    asked.destroy()
  })
}

const toOrigin = (address: string) => URL.parse(address)?.origin ?? address

/** Looks as `findLocalServers` does, once for all who ask meanwhile. */
export function createLocalLook(find: () => Promise<LocalServer[]> = findLocalServers): () => Promise<LocalServer[]> {
  let underWay: Promise<LocalServer[]> | null = null
  return () => {
    underWay ??= find().finally(() => {
      underWay = null
    })
    return underWay
  }
}
