/** The message editor with images, and the model picker. */
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { setQuery } from '../address/address.ts'
import { toPrices } from '../figures/figures.ts'
import { MODIFIER } from '../shell/keyboard.ts'
import { Button, Icon, IconButton } from '../ui/controls.tsx'
import { Count, State } from '../ui/figure.tsx'
import { isLong } from './answer.tsx'
import { stopAll } from './run.ts'
import { showField } from './settings-fields.tsx'
import {
  addOnly,
  beginSecond,
  blocked,
  draft,
  dropSide,
  findModel,
  findWrong,
  isAnswering,
  type OfferedModel,
  readPictures,
  send,
  thread,
  toEndpoint,
  toEndpoints,
} from './state.ts'
import { chooseSecond, isDue, PICTURE_TYPES, type Picture, toOfferText } from './thread.ts'
import { TITLES } from './titles.ts'

interface ComposerProps {
  models: readonly OfferedModel[]
  chosen: readonly string[]
}

const toFiles = (list: FileList | null | undefined) => [...(list ?? [])]

export function Composer({ models, chosen }: ComposerProps) {
  const files = useRef<HTMLInputElement>(null)
  const at = useRef<HTMLTextAreaElement>(null)
  const [problem, setProblem] = useState<string | null>(null)
  const { text, pictures } = draft.value
  const isOn = isAnswering.value
  const isEmpty = text.trim() === '' && pictures.length === 0
  const isAnyDue = chosen.some((_, side) => isDue(thread.value, side === 0 ? 0 : 1))
  const blind = chosen.filter((slug) => findModel(models, slug)?.input_modalities.includes('image') === false)

  const add = async (picked: readonly File[]) => {
    if (picked.length === 0) return
    const read = await readPictures(picked).catch(() => ({ pictures: [], problem: "Couldn't read the file." }))
    draft.value = { ...draft.value, pictures: [...draft.value.pictures, ...read.pictures] }
    setProblem(read.problem)
    at.current?.focus()
  }
  const go = () => {
    setProblem(null)
    const wrong = findWrong()
    if (wrong !== null) showField(wrong)
    else send(chosen)
  }
  const latest = useRef(go)
  latest.current = go
  // On the document, so that it also works in tool result fields.
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      const isMeant = event.key === 'Enter' && (event.ctrlKey || event.metaKey) && !event.defaultPrevented
      if (!isMeant || !(event.target instanceof HTMLElement) || !event.target.matches('[data-sends]')) return
      event.preventDefault()
      latest.current()
    }
    document.addEventListener('keydown', onKeyDown)
    return () => document.removeEventListener('keydown', onKeyDown)
  }, [])
  const said = blocked.value ?? problem
  return (
    <section
      class="composer"
      aria-label="Next message"
      tabIndex={-1}
      onDragOver={(event) => {
        if (event.dataTransfer?.types.includes('Files')) event.preventDefault()
      }}
      onDrop={(event) => {
        const dropped = toFiles(event.dataTransfer?.files)
        if (dropped.length === 0) return
        event.preventDefault()
        void add(dropped)
      }}
    >
      <div role="alert">
        {said !== null && (
          <p class="turn-ending bad">
            <Icon name="warning" />
            <span>{said}</span>
          </p>
        )}
      </div>
      <PictureList
        pictures={pictures}
        remove={(index) => {
          draft.value = { ...draft.value, pictures: pictures.filter((_, one) => one !== index) }
          at.current?.focus()
        }}
      />
      {pictures.length > 0 && blind.length > 0 && <p class="hint">{blind.join(' and ')} may not support images.</p>}
      <textarea
        ref={at}
        class={isLong(text) ? 'is-long' : 'grows'}
        aria-label="Message"
        placeholder={thread.value.length === 0 ? 'Send a message…' : 'Reply…'}
        rows={2}
        value={text}
        data-sends
        onInput={({ currentTarget: { value } }) => {
          draft.value = { ...draft.value, text: value }
        }}
        onPaste={(event) => {
          const pasted = toFiles(event.clipboardData?.files)
          // Copied tables and pages have both text and an image of it.
          if (pasted.length === 0 || event.clipboardData?.types.includes('text/plain')) return
          event.preventDefault()
          void add(pasted)
        }}
      />
      <div class="composer-foot">
        <input
          ref={files}
          type="file"
          accept={PICTURE_TYPES.join(',')}
          multiple
          hidden
          onChange={({ currentTarget }) => {
            void add(toFiles(currentTarget.files))
            currentTarget.value = ''
          }}
        />
        <IconButton
          icon="picture"
          label="Add images: PNG, JPEG, WebP, or GIF, at most 23 MB total"
          onClick={() => files.current?.click()}
        />
        <p class="hint composer-hint">
          <kbd>{MODIFIER}</kbd> <kbd>Enter</kbd> sends, <kbd>Esc</kbd> stops
        </p>
        <Button
          kind="quiet"
          title="Adds the message without sending it to a model"
          disabled={isOn || isEmpty}
          onClick={() => addOnly(chosen)}
        >
          Add without sending
        </Button>
        <Button
          kind={isOn ? 'bad' : 'main'}
          icon={isOn ? 'stop' : 'up'}
          aria-disabled={!isOn && isEmpty && !isAnyDue}
          onClick={isOn ? stopAll : go}
        >
          {isOn ? 'Stop' : 'Send'}
        </Button>
      </div>
    </section>
  )
}

interface PickerProps {
  models: readonly OfferedModel[]
  chosen: readonly string[]
}

export function ModelsPicker({ models, chosen }: PickerProps) {
  const id = useId()
  const [first = '', second] = chosen
  const model = findModel(models, first)
  const able = toEndpoints(model)
  const endpoint = toEndpoint(model)
  const chats = models.filter((one) => toEndpoints(one).includes('chat'))
  const compare = () => {
    setQuery({ model: first, beside: chooseSecond(chats, first) })
    beginSecond()
    focusSoon('[name="beside"]')
  }
  const drop = (side: 0 | 1) => {
    dropSide(side)
    setQuery({ model: chosen[side === 0 ? 1 : 0] ?? null, beside: null })
    focusSoon('.play-models [name="model"]')
  }
  return (
    <div class="play-models" data-two={second !== undefined}>
      <ModelField name="model" label="Model" models={models} slug={first} drop={second && (() => drop(0))} />
      {second !== undefined ? (
        <ModelField name="beside" label="Second model" models={chats} slug={second} drop={() => drop(1)} />
      ) : (
        endpoint === 'chat' && (
          <div class="play-compare">
            <Button icon="plus" onClick={compare} disabled={isAnswering.value}>
              Compare models
            </Button>
          </div>
        )
      )}
      {able.length > 1 && (
        <div class="field">
          <label for={id}>Use for</label>
          <select
            {...{ id, name: 'as' }}
            onChange={({ currentTarget: { value } }) => setQuery({ as: value, beside: null })}
          >
            {able.map((one) => (
              <option key={one} value={one} selected={one === endpoint}>
                {TITLES[one]}
              </option>
            ))}
          </select>
        </div>
      )}
    </div>
  )
}

/** The field is too small for prices, so the selected model's are below. */
const IS_NARROW = matchMedia('(max-width: 40em)')

interface FieldProps {
  /** Query parameter. */
  name: 'model' | 'beside'
  label: string
  models: readonly OfferedModel[]
  slug: string
  drop: (() => void) | undefined | ''
}

function ModelField({ name, label, models, slug, drop }: FieldProps) {
  const id = useId()
  const model = findModel(models, slug)
  const groups = Object.entries(Object.groupBy(models, (one) => TITLES[toEndpoints(one)[0] ?? 'chat']))
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <div class="play-model">
        <select
          {...{ id, name }}
          aria-describedby={`${id}-facts`}
          title={model === null ? slug : toOfferText(model)}
          disabled={isAnswering.value}
          onChange={({ currentTarget: { value } }) => setQuery({ [name]: value, as: null })}
        >
          {model === null && (
            <option value={slug} selected>
              {slug}
            </option>
          )}
          {groups.map(([title, group]) => (
            <optgroup key={title} label={title}>
              {group?.map((one) => (
                <option key={one.slug} value={one.slug} selected={one.slug === slug}>
                  {IS_NARROW.matches ? one.slug : toOfferText(one)}
                </option>
              ))}
            </optgroup>
          ))}
        </select>
        {drop && <IconButton icon="close" label={`Remove ${slug}`} onClick={drop} disabled={isAnswering.value} />}
      </div>
      <p class="hint play-facts" id={`${id}-facts`}>
        {model === null ? (
          "Model not found, or you don't have access to it."
        ) : (
          <>
            <State kind={model.is_ready === false ? 'bad' : 'good'}>
              {model.is_ready === false ? 'not ready' : 'ready'}
            </State>
            <span>{toPrices(model.pricing, model.output_modalities)}</span>
            {toEndpoints(model).includes('chat') && (
              <span>
                context window: <Count count={model.context_length} /> tokens
              </span>
            )}
          </>
        )}
      </p>
    </div>
  )
}

/** After rendering. */
const focusSoon = (selector: string): void =>
  void requestAnimationFrame(() => document.querySelector<HTMLElement>(selector)?.focus())

export const backToEdit = (id: number): void => focusSoon(`[data-edit="${id}"]`)

/** On touch screens, focuses the section, since focusing the field would open the keyboard. */
export const toComposer = (): void =>
  focusSoon(matchMedia('(pointer: coarse)').matches ? '.composer' : '.composer textarea')

/** @param remove null if they can't be removed */
export const PictureList = ({
  pictures,
  remove,
}: {
  pictures: readonly Picture[]
  remove: ((at: number) => void) | null
}) =>
  pictures.length === 0 ? null : (
    <ul class="play-pictures">
      {pictures.map(({ name, url }, at) => (
        <li key={at}>
          <img src={url} alt={name} />
          {remove && <IconButton icon="close" label={`Remove ${name}`} onClick={() => remove(at)} />}
        </li>
      ))}
    </ul>
  )
