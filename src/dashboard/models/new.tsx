/** A new model with its first route, and the field that suggests an upstream's own models. */
import type { ShownUpstream } from '../../documents/upstream.ts'
import { isBuiltIn } from '../../domain/dialects.ts'
import { PRICES } from '../../domain/usage.ts'
import { named, open, toHref } from '../address/address.ts'
import { api, ask } from '../api/client.ts'
import { useLoaded } from '../api/loaded.ts'
import { Refusal } from '../api/refusal.ts'
import { reloadCatalog } from '../catalog/data.ts'
import { toTypedPrice } from '../figures/figures.ts'
import { toOfferContext, toOfferPrice, toTypedContext, toTypedPricing } from '../provider/picks.ts'
import { FormPage, Page } from '../shell/page.tsx'
import { type FormState, SelectField, TextField, useForm } from '../ui/form.tsx'
import { FactsRoom, tell, Unread } from '../ui/notice.tsx'
import { useUpstreams } from '../upstreams/data.ts'

/** Models that the upstream lists (none for the demo), and the typed one. */
export const useOffers = (
  upstream: ShownUpstream | undefined,
  { upstream_model: text }: { upstream_model: string },
) => {
  const isListed = upstream !== undefined && !isBuiltIn(upstream) && upstream.enabled
  const { data: offers, problem } = useLoaded(`offers/${isListed ? upstream.id : ''}`, async () =>
    isListed ? (await ask(api.upstreams({ id: upstream.id }).models.get())).models : [],
  )
  const typed = text.trim()
  return { offers, problem, typed, known: offers?.find((offer) => offer.upstream_model === typed) }
}

interface UpstreamModelProps<Values extends Record<string, string>> {
  form: FormState<Values & { upstream: string; upstream_model: string }>
  upstream: ShownUpstream | undefined
  autoFocus?: boolean
}

/** Any name is allowed: some upstreams serve more than they list. */
export function UpstreamModelField<Values extends Record<string, string>>(props: UpstreamModelProps<Values>) {
  const { form, upstream, autoFocus = false } = props
  const { offers, problem, typed, known } = useOffers(upstream, form.values.value)
  const isUnlisted = typed !== '' && !known && offers !== null && offers.length > 0
  return (
    <TextField
      of={form}
      name="upstream_model"
      label="Upstream model ID"
      placeholder={offers?.find((offer) => offer.is_usual)?.upstream_model ?? 'gpt-5'}
      suggestions={offers?.map((offer) => [offer.upstream_model, toOfferPrice(offer)] as const) ?? []}
      hint={
        known
          ? `${toOfferPrice(known)}, ${toOfferContext(known)}`
          : isUnlisted
            ? `${upstream?.id} doesn't list this model.`
            : problem
              ? `Couldn't list its models: ${problem.message}`
              : 'Sent to the upstream as the model.'
      }
      autoFocus={autoFocus}
      isCode
    />
  )
}

/** The default upstream of a route: one other than the demo, if any. */
export const chooseUpstream = (upstreams: readonly ShownUpstream[]): string =>
  (upstreams.find((one) => !isBuiltIn(one)) ?? upstreams[0])?.id ?? ''

export function NewModelPage() {
  const { data: upstreams, problem, reload } = useUpstreams()
  if (upstreams !== null && upstreams.length > 0) return <NewModel upstreams={upstreams} />
  return (
    <Page title="New model" above={<a href={toHref('/models')}>Models</a>}>
      <Unread of={upstreams} problem={problem} retry={reload}>
        <FactsRoom />
      </Unread>
      {upstreams !== null && (
        <p>
          A model needs an upstream. <a href={toHref('/upstreams')}>View upstreams</a>
        </p>
      )}
    </Page>
  )
}

function NewModel({ upstreams }: { upstreams: readonly ShownUpstream[] }) {
  const initial = {
    ...{ slug: '', upstream: named('upstream') ?? chooseUpstream(upstreams), upstream_model: '' },
    ...{ prompt: '', completion: '', context_length: '' },
  }
  const form = useForm(initial, async (values) => {
    const { upstream, upstream_model: model } = values
    if (model.trim() === '') throw new Refusal('Enter the upstream model ID.', 'invalid', 'upstream_model')
    const slug = values.slug.trim() || suggested
    const [pricing, context] = [toTypedPricing(values), toTypedContext(values.context_length, 'context_length')]
    const made = await ask(
      api.models.post({
        ...{ slug, upstream, upstream_model: model.trim() },
        ...(pricing ? { pricing } : {}),
        ...(context === undefined ? {} : { context_length: context }),
      }),
    ).catch((error) => {
      throw error instanceof Refusal && error.kind === 'catalog_changed'
        ? new Refusal(`${slug} already exists. Choose another name, or add a route to it.`, error.kind, 'slug')
        : error
    })
    await reloadCatalog()
    tell(made.is_priced ? `Created ${slug}.` : `Created ${slug}. It is disabled until you set a price.`)
    open(`/models?model=${encodeURIComponent(slug)}`)
  })
  const { values } = form
  const upstream = upstreams.find(({ id }) => id === values.value.upstream)
  const { typed, known } = useOffers(upstream, values.value)
  const suggested = known?.slug ?? (typed === '' || typed.includes('/') ? typed : `${upstream?.id}/${typed}`)
  const [price] = known?.pricing ?? []
  const toPlaceholder = (usd: string | undefined) => (usd === undefined ? 'unknown' : toTypedPrice(usd))
  return (
    <FormPage title="New model" list={['/models', 'Models']} form={form} submit="Create model">
      <SelectField of={form} name="upstream" label="Upstream" options={upstreams.map(({ id }) => [id, id] as const)} />
      <UpstreamModelField form={form} upstream={upstream} autoFocus />
      <TextField
        of={form}
        name="slug"
        label="Model ID"
        placeholder={suggested || 'openai/gpt-5'}
        hint="Used by clients. Leave empty to use the suggestion."
        isCode
      />
      {!upstream?.local && (
        <fieldset>
          <legend>Prices per million tokens</legend>
          <div class="fields">
            {(['prompt', 'completion'] as const).map((name) => (
              <TextField
                key={name}
                of={form}
                name={name}
                label={PRICES[name].word}
                before="$"
                inputMode="decimal"
                placeholder={toPlaceholder(price?.[name])}
              />
            ))}
          </div>
          <p class="hint">Leave empty to use known prices. Without a price, the model is disabled.</p>
        </fieldset>
      )}
      <TextField
        of={form}
        name="context_length"
        label="Context window, tokens"
        inputMode="numeric"
        placeholder={known?.context_length ? String(known.context_length) : '128000'}
        hint="Leave empty to use the known one, or 128,000."
      />
    </FormPage>
  )
}
