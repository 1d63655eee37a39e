/** Playground: chat with one model, or two side by side, and requests of every other kind. */
import { useEffect, useState } from 'preact/hooks'
import { query, setQuery, toHref } from '../address/address.ts'
import { may } from '../api/session.ts'
import { Page } from '../shell/page.tsx'
import { Button } from '../ui/controls.tsx'
import { announce, Empty, Problem } from '../ui/notice.tsx'
import { CodeOverlay, toAccess } from './code.tsx'
import { Composer, ModelsPicker, toComposer } from './composer.tsx'
import { forgetMade, isWorking, made } from './made.ts'
import { stopAll } from './run.ts'
import { SettingsFields } from './settings-fields.tsx'
import {
  clear,
  cleared,
  draft,
  findModel,
  isAnswering,
  named,
  read,
  restoreCleared,
  settings,
  thread,
  toChosen,
  toEndpoint,
  useModels,
} from './state.ts'
import { toCodeBody } from './thread.ts'
import { ThreadView } from './thread-view.tsx'

export function PlaygroundPage() {
  const { data: models, problem, reload } = useModels()
  const [isCode, setCode] = useState(false)
  useEffect(() => {
    document.addEventListener('keydown', stopByKey)
    return () => document.removeEventListener('keydown', stopByKey)
  }, [])
  const chosen = toChosen(models ?? [])
  const model = findModel(models, chosen[0] ?? null)
  const endpoint = toEndpoint(model)
  const other = useOther(endpoint !== 'chat')
  const isEmpty = endpoint === 'chat' ? thread.value.length === 0 : made.value.length === 0
  useEffect(() => keepNamed(chosen), [`${chosen}`, query.value, thread.value.length > 0])
  const actions = (
    <>
      <Button icon="code" disabled={chosen.length === 0} onClick={() => setCode(true)}>
        View code
      </Button>
      <Button icon="remove" disabled={isEmpty} onClick={endpoint === 'chat' ? clearAll : forgetMade}>
        Clear
      </Button>
    </>
  )
  return (
    <Page title="Playground" actions={actions}>
      {problem && <Problem of={problem} retry={reload} />}
      {models !== null && chosen.length === 0 && <NoModels />}
      {models !== null && chosen.length > 0 && (
        <div class="play">
          <p class="dim">
            {endpoint === 'chat' ? 'Conversations' : 'Results'} are lost when you close or reload this tab. Usage is
            recorded.
          </p>
          <section class="panel play-setup" aria-label="Models and settings">
            <ModelsPicker models={models} chosen={chosen} />
            {endpoint === 'chat' && <SettingsFields />}
          </section>
          {endpoint === 'chat' ? (
            <>
              {thread.value.length === 0 ? <Nothing /> : <ThreadView models={models} chosen={chosen} />}
              <Composer models={models} chosen={chosen} />
            </>
          ) : (
            other && model && <other.OtherView key={endpoint} endpoint={endpoint} model={model} />
          )}
        </div>
      )}
      {isCode && endpoint === 'chat' && <CodeDialog chosen={chosen} onClose={() => setCode(false)} />}
      {isCode && endpoint !== 'chat' && other && (
        <other.OtherCode endpoint={endpoint} model={chosen[0] ?? ''} onClose={() => setCode(false)} />
      )}
    </Page>
  )
}

type Other = typeof import('./other.tsx')

/** Loaded for the first model that doesn't chat. */
function useOther(isWanted: boolean): Other | null {
  const [other, setOther] = useState<Other | null>(null)
  useEffect(() => {
    if (isWanted) void import('./other.tsx').then(setOther, () => {})
  }, [isWanted])
  return other
}

/** Keeps the models of the current conversation if the URL names none. */
function keepNamed(chosen: readonly string[]): void {
  const isNamed = query.value.has('model')
  if (isNamed || (named.value.length === 0 && thread.value.length > 0)) named.value = chosen
  const [model, beside = null] = named.value
  if (model !== undefined && !isNamed) setQuery({ model, beside })
}

function stopByKey(event: KeyboardEvent): void {
  if (event.key !== 'Escape' || event.defaultPrevented || document.querySelector('dialog[open]')) return
  if (isAnswering.value || isWorking.value) stopAll()
}

function clearAll(): void {
  clear()
  announce('Conversation cleared.')
  toComposer()
}

function undoClear(): void {
  restoreCleared()
  toComposer()
}

const Nothing = () => (
  <div class="play-nothing">
    <p>Send a message to start. Responses are streamed here.</p>
    {cleared.value !== null && cleared.value.length > 0 && (
      <Button icon="again" onClick={undoClear}>
        Undo clear
      </Button>
    )}
  </div>
)

const NoModels = () => (
  <Empty title="No models available">
    <p>
      {may('editor') ? (
        <>
          Add a model to try it here. <a href={toHref('/models')}>Go to models</a>
        </>
      ) : (
        'Your team has no models yet. Ask an owner or editor for access.'
      )}
    </p>
  </Empty>
)

function CodeDialog({ chosen, onClose }: { chosen: readonly string[]; onClose: () => void }) {
  const [side, setSide] = useState<0 | 1>(0)
  const { fields, problems } = read.value
  const said = { system: settings.value.system, thread: thread.value, side }
  const body = toCodeBody(chosen[side] ?? '', said, draft.value, fields)
  return (
    <CodeOverlay of={({ toChatSnippets }) => toChatSnippets({ ...toAccess(), body })} onClose={onClose}>
      {chosen.length > 1 && (
        <div class="field">
          <select aria-label="Model" onChange={({ currentTarget: { value } }) => setSide(value === '0' ? 0 : 1)}>
            {chosen.map((slug, at) => (
              <option key={at} value={at} selected={at === side}>
                {slug}
              </option>
            ))}
          </select>
        </div>
      )}
      {Object.keys(problems).length > 0 && <p class="hint wrong">Invalid settings are left out.</p>}
    </CodeOverlay>
  )
}
