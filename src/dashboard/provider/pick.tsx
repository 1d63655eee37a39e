/** The provider's models, with known facts; users can enter unknown ones. */
import { useLayoutEffect, useState } from 'preact/hooks'
import type { ShownOffer } from '../../documents/offer.ts'
import { count } from '../../domain/text.ts'
import { setQuery, toHref } from '../address/address.ts'
import type { Refusal } from '../api/refusal.ts'
import { toFeatures } from '../models/words.ts'
import { Button } from '../ui/controls.tsx'
import { Form, useForm } from '../ui/form.tsx'
import { announce, Unread } from '../ui/notice.tsx'
import { More, SearchFilter, STEP, searched } from '../ui/table.tsx'
import { add, change, choose, draft, toStep, useNames } from './draft.ts'
import { type Choice, filterOffers, type Names, toChoice, toConflict, toOfferContext, toOfferPrice } from './picks.ts'

export function PickModels({ provider }: { provider: string | null }) {
  const { data: names, problem, reload } = useNames()
  const { upstream, offers, notes, picks } = draft.value
  const form = useForm({}, async () => {
    if (names) await add(names)
  })
  useLayoutEffect(() => document.querySelector<HTMLElement>('[data-search], [data-name]')?.focus(), [names === null])
  if (names === null || upstream === null) return <Unread of={names} problem={problem} retry={reload} />
  const wrong = form.problem.value
  return (
    <Form
      of={form}
      submit={`Add ${upstream.id}${picks.size === 0 ? ' without models' : ` with ${count(picks.size, 'model')}`}`}
      isUnsaved={false}
      otherActions={<a href={toHref(toStep(provider))}>Back</a>}
    >
      {notes.map((note) => (
        <p key={note}>{note}</p>
      ))}
      {offers.length > 0 && <Offers of={offers} names={names} wrong={wrong} />}
      <ByName names={names} wrong={wrong} />
    </Form>
  )
}

interface OffersProps {
  of: readonly ShownOffer[]
  names: Names
  /** A refusal's field is the model's name, a space, and the field. */
  wrong: Refusal | null
}

function Offers({ of: offers, names, wrong }: OffersProps) {
  const [isAll, setAll] = useState(!offers.some((offer) => offer.is_usual))
  const [most, setMost] = useState(STEP)
  const { picks } = draft.value
  const shown = filterOffers(offers, searched(), isAll)
  const others = offers.filter((offer) => !offer.is_usual).length
  const areChosen = shown.length > 0 && shown.every(({ upstream_model: name }) => picks.has(name))
  const chooseShown = () => {
    const next = new Map(picks)
    for (const { upstream_model: name, slug } of shown)
      if (areChosen) next.delete(name)
      else if (!next.has(name)) next.set(name, toChoice(slug))
    change({ picks: next })
    announce(`${next.size} chosen.`)
  }
  const enter = (event: KeyboardEvent) => {
    const { key, target } = event
    if (key !== 'Enter' || !(target instanceof HTMLInputElement)) return
    const isEmpty = target.value.trim() === ''
    // Adds what was chosen.
    if (target.type === 'search' && isEmpty && picks.size > 0) return
    event.preventDefault()
    if (target.type !== 'search') return target.click()
    const [first] = shown
    if (first === undefined || isEmpty) return
    toggle(first)
    announce(`${first.upstream_model} ${draft.value.picks.has(first.upstream_model) ? 'chosen' : 'not chosen'}.`)
    // The next Enter adds what was chosen.
    setQuery({ search: null })
  }
  return (
    <>
      <search class="filters" onKeyDown={enter}>
        <SearchFilter what="models" />
        <Button onClick={chooseShown} aria-disabled={shown.length === 0}>
          {areChosen ? 'Clear' : 'Select'} all {shown.length} shown
        </Button>
        {others > 0 && others < offers.length && (
          <label class="switch-line">
            <input type="checkbox" checked={isAll} onChange={() => setAll(!isAll)} />
            Show {others} others
          </label>
        )}
      </search>
      <ul class="offers" aria-label="Models">
        {shown.slice(0, most).map((offer) => (
          <Offer key={offer.upstream_model} of={offer} names={names} wrong={wrong} />
        ))}
      </ul>
      {shown.length === 0 && <p class="dim">No matching models.</p>}
      <p class="list-foot" aria-live="polite">
        {shown.length} of {offers.length} shown, {picks.size} chosen. Enter in the search chooses the first match.
      </p>
      <More rows={shown.length} most={most} setMost={setMost} />
    </>
  )
}

const toggle = ({ upstream_model: name, slug }: ShownOffer) =>
  choose(name, draft.value.picks.has(name) ? null : toChoice(slug))

function Offer({ of: offer, names, wrong }: { of: ShownOffer; names: Names; wrong: Refusal | null }) {
  const { upstream_model: name } = offer
  const choice = draft.value.picks.get(name)
  return (
    <li data-chosen={choice !== undefined}>
      <label class="offer">
        <input
          type="checkbox"
          checked={choice !== undefined}
          onChange={() => toggle(offer)}
          onKeyDown={(event) => {
            if (event.key !== 'Enter') return
            event.preventDefault()
            toggle(offer)
          }}
        />
        <span class="offer-name">
          {name}
          {offer.name !== name && <span class="under">{offer.name}</span>}
        </span>
        <span class="offer-facts">
          <span>{toOfferPrice(offer)}</span>
          <span>{toOfferContext(offer)}</span>
          <span>{toFeatures(offer).join(', ')}</span>
        </span>
      </label>
      {choice && <ChoiceFields {...{ name, choice, names, wrong }} offer={offer} />}
    </li>
  )
}

interface ChoiceProps {
  name: string
  choice: Choice
  names: Names
  wrong: Refusal | null
  /** Null if the model isn't listed. */
  offer: ShownOffer | null
}

function ChoiceFields({ name, choice, names, wrong, offer }: ChoiceProps) {
  const conflict = toConflict(name, choice, draft.value.picks, names)
  const isFree = draft.value.upstream?.local === true
  const isPriced = isFree || offer === null || offer.pricing.length > 0
  const input = (field: keyof Choice, label: string, more: object = {}) => (
    <label>
      <span>{label}</span>
      <input
        value={choice[field]}
        name={`${name} ${field}`}
        spellcheck={false}
        autoComplete="off"
        aria-invalid={wrong?.field === `${name} ${field}` || (field === 'slug' && conflict?.isWrong)}
        onInput={({ currentTarget: { value } }) => choose(name, { ...choice, [field]: value })}
        {...more}
      />
    </label>
  )
  return (
    <div class="offer-fields">
      {input('slug', 'Offered as', { class: 'code-input', placeholder: 'vendor/model' })}
      {(!isPriced || (offer === null && !isFree)) && (
        <>
          {input('prompt', 'Input, $ per million', { inputMode: 'decimal' })}
          {input('completion', 'Output, $ per million', { inputMode: 'decimal' })}
        </>
      )}
      {offer?.context_length === null &&
        input('context', 'Context, tokens', { inputMode: 'numeric', placeholder: '128000' })}
      {wrong?.field?.startsWith(`${name} `) && (
        <p class="hint wrong" role="alert">
          {wrong.message}
        </p>
      )}
      {conflict && <p class={conflict.isWrong ? 'hint wrong' : 'hint'}>{conflict.text}</p>}
      {!isPriced && choice.prompt === '' && choice.completion === '' && (
        <p class="hint">Price unknown: the model stays disabled until it has a price. 0 is free.</p>
      )}
      {offer === null && (
        <p class="hint">
          {isFree
            ? 'Not listed. Free, because the upstream is local.'
            : 'Not listed. Leave prices empty to look them up.'}
        </p>
      )}
    </div>
  )
}

/** For models that the provider doesn't list. */
function ByName({ names, wrong }: { names: Names; wrong: Refusal | null }) {
  const [name, setName] = useState('')
  const { picks, offers, upstream } = draft.value
  const listed = new Set(offers.map(({ upstream_model }) => upstream_model))
  const unlisted = [...picks].filter(([one]) => !listed.has(one))
  const take = () => {
    const wanted = name.trim()
    if (wanted === '') return
    choose(wanted, toChoice(wanted.includes('/') ? wanted : `${upstream?.id}/${wanted}`))
    setName('')
  }
  return (
    <section class="by-name">
      {unlisted.length > 0 && (
        <ul class="offers" aria-label="Models added by name">
          {unlisted.map(([one, choice]) => (
            <li key={one} data-chosen="true">
              <label class="offer">
                <input type="checkbox" checked onChange={() => choose(one, null)} />
                <span class="offer-name">{one}</span>
              </label>
              <ChoiceFields name={one} choice={choice} names={names} wrong={wrong} offer={null} />
            </li>
          ))}
        </ul>
      )}
      <details open={offers.length === 0}>
        <summary>Add a model by name</summary>
        <div class="filters">
          <input
            class="code-input"
            aria-label="Model name at the provider"
            placeholder="gpt-5"
            data-name
            value={name}
            onInput={({ currentTarget: { value } }) => setName(value)}
            onKeyDown={(event) => {
              // Adds what was chosen.
              if (event.key !== 'Enter' || (name.trim() === '' && picks.size > 0)) return
              event.preventDefault()
              take()
            }}
          />
          <Button icon="plus" onClick={take}>
            Add model
          </Button>
        </div>
      </details>
    </section>
  )
}
