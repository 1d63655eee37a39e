/**
 * A scripted OpenID Connect provider (RFC 7519, RFC 7636, OpenID Connect Core 1.0). `e2e/oidc.test.ts` uses a
 * third-party one.
 */
import { findFreePort } from './free-port.ts'

export const CLIENT = { id: 'tollgate', secret: 'a secret / of: ours' }

type Claims = Record<string, unknown>

export interface IdentityProvider {
  issuer: string
  /** ID token claims in addition to the required ones. */
  claims: Claims
  /** The userinfo response, if set. */
  userinfo: Claims | null
  spoil(claims: Claims): Claims
  /** Replaces the response if set; a promise that never resolves is a silent provider. */
  interrupt: ((path: string) => Response | Promise<Response> | null) | null
  /** Requested paths, and parameters of the last authorization request. */
  asked: string[]
  words: URLSearchParams
  tokens: string[]
  /** Signs with an unpublished key from now on. */
  forge(): Promise<void>
  /** Acts as a browser; returns where it is redirected. */
  visit(location: string | null): Promise<URL>
  stop(): Promise<void>
}

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
const makeKey = () => crypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']) as Promise<CryptoKeyPair>

export async function startIdentityProvider(port = 0): Promise<IdentityProvider> {
  const published = await makeKey()
  let signing = published
  const codes = new Map<string, URLSearchParams>()
  const accessTokens = new Set<string>()

  const sign = async (claims: Claims) => {
    const part = (value: Claims) => Buffer.from(JSON.stringify(value)).toString('base64url')
    const text = `${part({ alg: 'ES256', kid: '1' })}.${part(claims)}`
    const signature = await crypto.subtle.sign(ALGORITHM, signing.privateKey, Buffer.from(text))
    return `${text}.${Buffer.from(signature).toString('base64url')}`
  }

  const authorize = (words: URLSearchParams) => {
    provider.words = words
    const code = crypto.randomUUID()
    codes.set(code, words)
    const back = new URL(words.get('redirect_uri') ?? '')
    back.searchParams.set('code', code)
    back.searchParams.set('state', words.get('state') ?? '')
    return new Response(null, { status: 303, headers: { location: back.href } })
  }

  const giveTokens = async (request: Request) => {
    const [id, secret] = [CLIENT.id, CLIENT.secret].map(encodeURIComponent)
    const basic = `Basic ${Buffer.from(`${id}:${secret?.replaceAll('%20', '+')}`).toString('base64')}`
    if (request.headers.get('authorization') !== basic) return refuse(401, 'invalid_client')
    const words = new URLSearchParams(await request.text())
    const asked = codes.get(words.get('code') ?? '')
    codes.delete(words.get('code') ?? '')
    const challenge = new Bun.CryptoHasher('sha256').update(words.get('code_verifier') ?? '').digest('base64url')
    if (!asked || asked.get('code_challenge') !== challenge) return refuse(400, 'invalid_grant')
    if (asked.get('redirect_uri') !== words.get('redirect_uri')) return refuse(400, 'invalid_grant')
    const nowSeconds = Math.floor(Date.now() / 1_000)
    const must = {
      iss: provider.issuer,
      aud: CLIENT.id,
      iat: nowSeconds,
      exp: nowSeconds + 60,
      nonce: asked.get('nonce'),
    }
    const idToken = await sign(provider.spoil({ ...must, sub: '1', ...provider.claims }))
    const accessToken = crypto.randomUUID()
    accessTokens.add(accessToken)
    provider.tokens.push(idToken, accessToken)
    return Response.json({ access_token: accessToken, token_type: 'Bearer', id_token: idToken })
  }

  const answer = async (request: Request): Promise<Response> => {
    const { pathname, searchParams } = new URL(request.url)
    provider.asked.push(pathname)
    const interrupted = provider.interrupt?.(pathname)
    if (interrupted) return interrupted
    if (pathname === '/.well-known/openid-configuration')
      return Response.json({
        ...{ issuer: provider.issuer, authorization_endpoint: `${provider.issuer}/authorize` },
        ...{ token_endpoint: `${provider.issuer}/token`, jwks_uri: `${provider.issuer}/keys` },
        ...(provider.userinfo && { userinfo_endpoint: `${provider.issuer}/userinfo` }),
        ...{ id_token_signing_alg_values_supported: ['ES256'], scopes_supported: ['openid', 'groups'] },
      })
    if (pathname === '/keys') {
      const jwk = await crypto.subtle.exportKey('jwk', published.publicKey)
      return Response.json({ keys: [{ ...jwk, kid: '1', alg: 'ES256', use: 'sig' }] })
    }
    if (pathname === '/authorize') return authorize(searchParams)
    if (pathname === '/token') return giveTokens(request)
    const bearer = request.headers.get('authorization')?.slice('Bearer '.length) ?? ''
    if (pathname === '/userinfo' && accessTokens.has(bearer)) return Response.json(provider.userinfo)
    return refuse(404, 'not_found')
  }

  const server = Bun.serve({
    port: port || (await findFreePort()),
    hostname: '127.0.0.1',
    idleTimeout: 0,
    fetch: answer,
  })
  const provider: IdentityProvider = {
    issuer: `http://127.0.0.1:${server.port}`,
    ...{ claims: {}, userinfo: null, spoil: (claims: Claims) => claims, interrupt: null },
    ...{ asked: [], words: new URLSearchParams(), tokens: [] },
    async forge() {
      signing = await makeKey()
    },
    async visit(location) {
      const response = await fetch(location ?? '', { redirect: 'manual' })
      return new URL(response.headers.get('location') ?? '')
    },
    stop: () => server.stop(true),
  }
  return provider
}

const refuse = (status: number, error: string) =>
  Response.json({ error, error_description: '<script>alert(1)</script>' }, { status })
