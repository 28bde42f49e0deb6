// Names with values, such as arguments and variables: one row each.
import { useEffect, useRef, useState, type JSX } from "react";

import type { Schema } from "./schema";
import { SchemaForm } from "./SchemaForm";
import { fromText, toText } from "./values";

type Value = Record<string, unknown>;

interface Props {
  kind: "texts" | "values" | "groups";
  title: string;
  item: Schema | null;
  value: Value;
  onChange: (value: Value) => void;
}

export function MapField({ kind, title, item, value, onChange }: Props): JSX.Element {
  const [name, setName] = useState("");
  const field = useRef<HTMLInputElement>(null);
  // The form is not sent without a name that somebody typed: the browser says why, and goes there.
  useEffect(() => field.current?.setCustomValidity(unfinished(name.trim(), value)), [name, value]);
  const add = (): void => {
    const key = name.trim();
    if (key === "" || Object.hasOwn(value, key)) return;
    onChange({ ...value, [key]: kind === "groups" ? {} : kind === "values" ? true : "" });
    setName("");
  };
  const remove = (key: string): void => onChange(Object.fromEntries(Object.entries(value).filter(([other]) => other !== key)));
  return (
    <ul className="map-field">
      {Object.entries(value).map(([key, held]) => (
        <li key={key}>
          <code>{key}</code>
          {kind === "groups" && item ? (
            <SchemaForm
              schema={item}
              value={held as Value}
              onChange={(inner) => onChange({ ...value, [key]: inner })}
              problems={[]}
              place={key}
            />
          ) : (
            <input
              aria-label={`${title}: ${key}`}
              spellCheck={false}
              defaultValue={kind === "values" ? toText(held) : String(held)}
              onChange={(event) =>
                onChange({ ...value, [key]: kind === "values" ? fromText(event.target.value) : event.target.value })
              }
            />
          )}
          <button type="button" className="small" onClick={() => remove(key)} aria-label={`Remove ${key}`}>
            Remove
          </button>
        </li>
      ))}
      <li>
        <input
          ref={field}
          aria-label={`${title}: name of a new one`}
          placeholder="name"
          spellCheck={false}
          value={name}
          onChange={(event) => setName(event.target.value)}
          onKeyDown={(event) => {
            if (event.key !== "Enter") return;
            event.preventDefault();
            add();
          }}
        />
        <button type="button" className="small" onClick={add}>
          Add
        </button>
      </li>
    </ul>
  );
}

function unfinished(name: string, value: Value): string {
  if (name === "") return "";
  return Object.hasOwn(value, name) ? `${name} is there already: clear this field.` : `Add ${name}, or clear this field.`;
}
