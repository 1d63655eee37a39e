/** Google's token endpoint, scripted: checks assertions as the real one does. */

/** A service account's key file, with a test key. */
export interface Account {
  email: string
  /** The file's JSON. */
  json: string
}

export interface TokenEndpoint {
  uri: string
  account: Account
  /** Claims of accepted assertions. */
  claims: Record<string, unknown>[]
  /** Replaces the response; null: a token, if the request is valid. */
  script(answer: (() => Response | Promise<Response>) | null): void
  stop(): Promise<void>
}

const RSA = { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' }
const GRANT = 'urn:ietf:params:oauth:grant-type:jwt-bearer'

/** @param now the endpoint's clock, ms: an assertion is valid for an hour. */
export async function startTokenEndpoint(now: () => number): Promise<TokenEndpoint> {
  const pair = await crypto.subtle.generateKey(
    { ...RSA, modulusLength: 2048, publicExponent: new Uint8Array([1, 0, 1]) },
    true,
    ['sign', 'verify'],
  )
  const claims: Record<string, unknown>[] = []
  let scripted: (() => Response | Promise<Response>) | null = null
  const refuse = (error: string, error_description: string) =>
    Response.json({ error, error_description }, { status: 400 })
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      if (scripted) return scripted()
      const form = new URLSearchParams(await request.text())
      if (form.get('grant_type') !== GRANT) return refuse('unsupported_grant_type', 'Invalid grant_type')
      const [header = '', body = '', signature = ''] = (form.get('assertion') ?? '').split('.')
      const signed = new TextEncoder().encode(`${header}.${body}`)
      const bytes = new Uint8Array(Buffer.from(signature, 'base64url'))
      if (!(await crypto.subtle.verify(RSA.name, pair.publicKey, bytes, signed)))
        return refuse('invalid_grant', 'Invalid JWT Signature.')
      const said = JSON.parse(Buffer.from(body, 'base64url').toString())
      const seconds = now() / 1_000
      if (said.iat > seconds + 1 || said.exp < seconds || said.exp > said.iat + 3_600)
        return refuse('invalid_grant', 'Invalid JWT: Token must be a short-lived token (60 minutes)')
      claims.push({ ...said, ...JSON.parse(Buffer.from(header, 'base64url').toString()) })
      return Response.json({ access_token: `token-number-${claims.length}`, expires_in: 3_599, token_type: 'Bearer' })
    },
  })
  const email = 'tollgate@project-1.iam.gserviceaccount.com'
  const uri = `http://127.0.0.1:${server.port}/token`
  const bytes = Buffer.from(await crypto.subtle.exportKey('pkcs8', pair.privateKey)).toString('base64')
  const json = JSON.stringify({
    type: 'service_account',
    project_id: 'project-1',
    private_key_id: '0123abcd',
    private_key: `-----BEGIN PRIVATE KEY-----\n${bytes.replace(/.{64}/g, '$&\n')}\n-----END PRIVATE KEY-----\n`,
    client_email: email,
    token_uri: uri,
  })
  return {
    uri,
    account: { email, json },
    claims,
    script(answer) {
      scripted = answer
    },
    stop: () => server.stop(true),
  }
}
