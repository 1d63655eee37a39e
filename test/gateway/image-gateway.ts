/** A gateway with image models on upstreams of each kind. */
import { startApp } from '../support/app.ts'
import { FORM_TYPE, toForm } from '../support/audio-forms.ts'
import { startUpstream } from '../support/upstream.ts'

const FACTS = 'context_length: 64000, max_output_length: 32000, input_modalities: [text, image], supported_features: []'
const MAKES = `${FACTS}, output_modalities: [image]`
const TOKENS =
  'pricing: [{ prompt: "0.000005", completion: "0.00003", image_token: "0.000008", image_token_completion: "0.00003" }]'
const SIZES = `pricing: [{ prompt: "0", completion: "0" },
    { size: 1024x1024, quality: low, prompt: "0", completion: "0", generated_image: "0.011" },
    { size: 1024x1024, quality: high, prompt: "0", completion: "0", generated_image: "0.167" }]`
const FLAT = 'pricing: [{ prompt: "0", completion: "0", generated_image: "0.025" }]'

export async function startImages() {
  const [near, far] = await Promise.all([startUpstream(), startUpstream()])
  const key = `api_key: \${UPSTREAM_KEY}`
  const at = `base_url: "${near.url}", ${key}`
  const app = await startApp({
    catalog: `
version: 1
upstreams:
  near: { dialect: openai, ${at} }
  far: { dialect: openai, base_url: "${far.url}", ${key} }
  ticks: { dialect: openai, ${at}, images: aspect_ratio, cost: { path: usage.cost_in_usd_ticks, unit: 1e-10usd } }
  together: { dialect: openai, ${at}, images: base64 }
  fireworks: { dialect: openai, ${at}, images: workflows }
  infra: { dialect: openai, ${at}, rename: { "image[]": image } }
  google: { dialect: gemini, ${at} }
  demo: { dialect: demo, local: true }
models:
  i/gpt: { name: G, ${MAKES}, ${TOKENS}, routes: [{ upstream: near, model: gpt-image-1.5 }, { upstream: far, model: gpt-image-1.5, priority: 1 }] }
  i/gpt-2: { name: G, ${MAKES}, ${TOKENS}, routes: [{ upstream: near, model: gpt-image-2 }] }
  i/sizes: { name: S, ${MAKES}, ${SIZES}, routes: [{ upstream: near, model: dall-e-9 }] }
  i/flat: { name: F, ${MAKES}, ${FLAT}, routes: [{ upstream: near, model: flux }] }
  i/xai: { name: X, ${MAKES}, ${FLAT}, routes: [{ upstream: ticks, model: grok }] }
  i/together: { name: T, ${MAKES}, ${FLAT}, routes: [{ upstream: together, model: flux-t }] }
  i/fireworks: { name: W, ${MAKES}, ${FLAT}, routes: [{ upstream: fireworks, model: accounts/fireworks/models/flux }] }
  i/infra: { name: D, ${MAKES}, ${FLAT}, routes: [{ upstream: infra, model: flux-d }] }
  i/gemini: { name: Gem, ${MAKES}, ${TOKENS}, routes: [{ upstream: google, model: gemini-3-pro-image }] }
  i/imagen: { name: Imagen, ${MAKES}, ${FLAT}, routes: [{ upstream: google, model: imagen-4 }] }
  i/chat: { name: Demo, ${FACTS}, output_modalities: [text], routes: [{ upstream: demo, model: d }] }
`,
  })
  const secret = app.key()
  const send = (path: string, type: string, body: string | Buffer<ArrayBuffer>, more: RequestInit = {}) =>
    fetch(new URL(path, app.baseUrl), {
      method: 'POST',
      headers: { authorization: `Bearer ${secret}`, 'content-type': type },
      body,
      ...more,
    })
  return {
    ...{ app, near, far, secret },
    post: (path: string, body: object, more?: RequestInit) =>
      send(path, 'application/json', JSON.stringify(body), more),
    postForm: (fields: Parameters<typeof toForm>[0], more?: RequestInit) =>
      send('/v1/images/edits', FORM_TYPE, toForm(fields), more),
    row: () => app.rows().at(-1),
    sent: () => near.requests.at(-1),
    async stop() {
      await Promise.all([near.stop(), far.stop()])
      await app.stop()
    },
  }
}

export const B64 = { b64_json: 'aGk=' }
/** Of one image of medium quality. */
export const USAGE = {
  ...{ input_tokens: 23, output_tokens: 1_056, total_tokens: 1_079 },
  input_tokens_details: { text_tokens: 23, image_tokens: 0 },
}
