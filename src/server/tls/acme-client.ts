/**
 * A client of certificate authorities: ACME (RFC 8555), with HTTP validation (8.3). Doesn't rely on fast, short, or
 * correct responses of the authority.
 */
import { createHash, createPrivateKey, createPublicKey, sign } from 'node:crypto'
import { asList, asObject, asText } from '../../domain/json.ts'
import { toRetryAfterMs } from '../../domain/retry-after.ts'
import { toRequest } from './der.ts'

export interface AcmeDeps {
  /** URL. */
  directory: string
  /** PEM, P-256. */
  accountKey: string
  fetch(url: string, init: RequestInit): Promise<Response>
  sleep(ms: number): Promise<void>
  /** Publishes `text` at `/.well-known/acme-challenge/TOKEN`; returns a function that stops this. */
  publish(token: string, text: string): () => void
}

/** The message is for the operator. */
export class AcmeError extends Error {
  /** @param retryMs how long the authority asked to wait. */
  constructor(
    message: string,
    readonly type = '',
    readonly retryMs = 0,
  ) {
    super(message)
  }
}

const REQUEST_MS = 20_000
const MAX_BYTES = 256 * 1024
/** Together at least five minutes. */
const MAX_LOOKS = 60
const LOOK_MS = { min: 2_000, max: 10_000 }
const MAX_NONCES = 5
const MAX_DETAIL = 300

interface Reply {
  body: Record<string, unknown>
  text: string
  headers: Headers
}

/** Returns the chain, PEM. @param key key of the certificate, PEM. @throws AcmeError */
export async function orderCertificate(name: string, key: string, deps: AcmeDeps): Promise<string> {
  const client = createClient(deps)
  await client.open()
  const order = await client.post('newOrder', { identifiers: [{ type: 'dns', value: name }] })
  const orderUrl = toUrl(order.headers.get('location'), 'order')
  // An order for one name has one authorization.
  for (const url of asList(order.body.authorizations).slice(0, 1))
    await authorize(client, toUrl(url, 'authorization'), deps)
  const csr = toRequest(name, key).toString('base64url')
  await client.look(orderUrl, ['pending'])
  await client.post(toUrl(order.body.finalize, 'finalize'), { csr })
  const done = await client.look(orderUrl, ['pending', 'ready', 'processing'])
  if (done.body.status !== 'valid') throw new AcmeError(`The order ended as ${toShort(done.body.status)}.`)
  return (await client.post(toUrl(done.body.certificate, 'certificate'), null)).text
}

type Client = ReturnType<typeof createClient>

async function authorize(client: Client, url: string, { accountKey, publish }: AcmeDeps): Promise<void> {
  const { body } = await client.post(url, null)
  if (body.status === 'valid') return
  const challenges = asList(body.challenges).map(asObject)
  const challenge = challenges.find((one) => one?.type === 'http-01')
  const token = asText(challenge?.token)
  if (!challenge || !/^[\w-]{16,200}$/.test(token)) throw new AcmeError('The authority offers no HTTP validation.')
  const end = publish(token, `${token}.${thumbprintOf(accountKey)}`)
  try {
    await client.post(toUrl(challenge.url, 'challenge'), {})
    const done = await client.look(url, ['pending', 'processing'])
    if (done.body.status === 'valid') return
    const failed = asList(done.body.challenges).map(asObject)
    const why = failed.map((one) => asText(asObject(one?.error)?.detail)).find((text) => text !== '')
    throw new AcmeError(`The authority couldn't validate the name: ${toShort(why ?? done.body.status)}`)
  } finally {
    end()
  }
}

function createClient({ directory, accountKey, fetch, sleep }: AcmeDeps) {
  let urls: Record<string, unknown> = {}
  let account: string | null = null
  let nonce: string | null = null

  const send = async (url: string, init: RequestInit): Promise<Reply & { status: number }> => {
    try {
      const signal = AbortSignal.timeout(REQUEST_MS)
      const response = await fetch(url, { ...init, redirect: 'error', signal })
      nonce = response.headers.get('replay-nonce') ?? nonce
      const text = await readShort(response)
      const isJson = text !== '' && /\bjson\b/.test(response.headers.get('content-type') ?? '')
      const body = isJson ? (asObject(JSON.parse(text)) ?? {}) : {}
      return { status: response.status, body, text, headers: response.headers }
    } catch (error) {
      if (error instanceof AcmeError) throw error
      throw new AcmeError(
        `Can't reach ${new URL(url).host}: ${toShort(error instanceof Error ? error.message : error)}.`,
      )
    }
  }
  const getNonce = async (): Promise<string> => {
    if (nonce === null) await send(toUrl(urls.newNonce, 'newNonce'), { method: 'HEAD' })
    const fresh = nonce
    nonce = null
    if (fresh === null) throw new AcmeError('The authority sent no nonce.')
    return fresh
  }
  const postOnce = async (url: string, payload: object | null) => {
    const who = account === null ? { jwk: jwkOf(accountKey) } : { kid: account }
    const head = encode({ alg: 'ES256', nonce: await getNonce(), url, ...who })
    const body = payload === null ? '' : encode(payload)
    const key = { key: createPrivateKey(accountKey), dsaEncoding: 'ieee-p1363' } as const
    const signature = sign('sha256', Buffer.from(`${head}.${body}`), key).toString('base64url')
    return send(url, {
      method: 'POST',
      headers: { 'content-type': 'application/jose+json', 'user-agent': 'tollgate' },
      body: JSON.stringify({ protected: head, payload: body, signature }),
    })
  }
  /** @param payload null to read the resource */
  const post = async (url: string, payload: object | null): Promise<Reply> => {
    const to = url.includes(':') ? url : toUrl(urls[url], url)
    for (let tries = 1; ; tries++) {
      const reply = await postOnce(to, payload)
      if (reply.status < 400) return reply
      const type = asText(reply.body.type).replace('urn:ietf:params:acme:error:', '')
      // Any nonce may have expired (6.5).
      if (type === 'badNonce' && tries < MAX_NONCES) continue
      const why = `${type || reply.status}: ${toShort(reply.body.detail ?? '')}`
      throw new AcmeError(`The authority refused: ${why}`, type, retryMsOf(reply.headers))
    }
  }
  return {
    post,
    async open(): Promise<void> {
      const reply = await send(directory, { method: 'GET' })
      if (reply.status !== 200) throw new AcmeError(`${directory} isn't an ACME directory (status ${reply.status}).`)
      urls = reply.body
      const { headers } = await post('newAccount', { termsOfServiceAgreed: true })
      account = toUrl(headers.get('location'), 'account')
    },
    /** Reads a resource until it leaves these states. */
    async look(url: string, unfinished: readonly string[]): Promise<Reply> {
      for (let looks = 0; looks < MAX_LOOKS; looks++) {
        const reply = await post(url, null)
        if (!unfinished.includes(asText(reply.body.status))) return reply
        await sleep(Math.min(LOOK_MS.max, Math.max(LOOK_MS.min, retryMsOf(reply.headers))))
      }
      throw new AcmeError('The authority took too long.')
    },
  }
}

async function readShort(response: Response): Promise<string> {
  const parts: Uint8Array[] = []
  let bytes = 0
  for await (const part of response.body ?? []) {
    bytes += part.length
    // Leaving the loop cancels the rest.
    if (bytes > MAX_BYTES) throw new AcmeError('The authority sent too much.')
    parts.push(part)
  }
  return Buffer.concat(parts).toString()
}

function toUrl(value: unknown, what: string): string {
  const url = URL.parse(asText(value))
  if (url?.protocol !== 'https:') throw new AcmeError(`The authority sent no https URL (${what}).`)
  return url.href
}

const retryMsOf = (headers: Headers) => toRetryAfterMs((name) => headers.get(name)) ?? 0

const toShort = (value: unknown) => String(value).replace(/\s+/g, ' ').slice(0, MAX_DETAIL)

const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')

/** In the order of RFC 7638. */
function jwkOf(key: string) {
  const { crv, kty, x, y } = createPublicKey(key).export({ format: 'jwk' })
  return { crv, kty, x, y }
}

const thumbprintOf = (key: string) =>
  createHash('sha256')
    .update(JSON.stringify(jwkOf(key)))
    .digest('base64url')
