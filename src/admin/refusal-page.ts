/** What a person reads whose browser was sent to the API itself, and was refused. It holds nothing that anybody else has said. */
import { toRefusal } from './errors.ts'

/** Answers with a page of what goes wrong, where a browser opens it; a script has it as JSON. */
export async function orPage(request: Request, work: () => Promise<Response>): Promise<Response> {
  try {
    return await work()
  } catch (error) {
    const refusal = toRefusal(error)
    if (refusal === null || !(request.headers.get('accept') ?? '').includes('text/html')) throw error
    const { error: refused } = (await refusal.json()) as { error: { message: string } }
    return toPage(refusal.status, refused.message)
  }
}

const STYLE = `
:root { color-scheme: light dark; font: 16px/1.45 system-ui, sans-serif }
body { max-width: 34rem; margin: 15vh auto; padding: 0 24px; background: light-dark(#fbfaf8, #12130f); color: light-dark(#1d1b16, #eceae2) }
h1 { font-size: 20px }
a { color: light-dark(#0b6b57, #4fc3a1) }
`

/** No script, and no style but its own. */
const POLICY = `default-src 'none'; style-src 'sha256-${new Bun.CryptoHasher('sha256').update(STYLE).digest('base64')}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`

const toPage = (status: number, message: string): Response =>
  new Response(
    `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Not signed in · Tollgate</title>
<style>${STYLE}</style>
<main>
<h1>You are not signed in</h1>
<p>${Bun.escapeHTML(message)}</p>
<p><a href="/admin">Back to the dashboard</a></p>
</main>
</html>
`,
    {
      status,
      headers: {
        'content-type': 'text/html; charset=utf-8',
        'content-security-policy': POLICY,
      },
    },
  )
